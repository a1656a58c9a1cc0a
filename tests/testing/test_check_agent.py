"""check_agent finds each fault, names its rule, and has nothing to say against sound agents."""

import math
import re
import zlib
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import ConfigSpace as cs
import pytest
from rich.console import Console

from popbandits.errors import AgentError, SpaceError
from popbandits.space import Space
from popbandits.storage.checkpoints import seal
from popbandits.testing import AgentRule as Rule
from popbandits.testing import Costs, Finding, Report, check_agent, trials
from popbandits.testing.contrasts import contrasts
from popbandits.testing.overhead import time_idle_run
from popbandits_experiments.contracts import spaces
from tests.testing import faulty_agents as agents
from tests.testing.faulty_agents import SPACE, Sound, tied

SOUND = (
    Sound,
    agents.TellsWhatItApplied,
    agents.ReturnsOutcomes,
    agents.TakesNoSeed,
    agents.SavesItsConfig,
    agents.Pickles,
    agents.SavesAfterTrainingOnly,
    agents.DrawsByMemberAndRound,
    agents.Links,
)
FAULTS = {
    agents.LoadRestoresThem: (Rule.HELD, "lr, momentum: .* the old value came back"),
    agents.OptimizerRestoresTheRate: (Rule.HELD, "lr: .* the old value came back; .* in the optimizer too"),
    agents.IgnoresThem: (Rule.USED, "lr, momentum: another value must show"),
    agents.IgnoresThemButSavesThem: (Rule.USED, "lr, momentum: another value must show"),
    agents.KeepsTheFirstRate: (Rule.ALIKE, "trained before and a new one .* keep no hyperparameters"),
    agents.AddsToItsBuffer: (Rule.ALIKE, "trained before and a new one .* let load replace everything"),
    agents.ResetsTheOptimizer: (Rule.COMPLETE, "not restored; save the optimizer's state"),
    agents.ForgetsTheOptimizer: (Rule.COMPLETE, "load does not replace what the agent had before"),
    agents.SavesItsPath: (Rule.MOVED, "FileNotFoundError.*where it was saved, the checkpoint loads"),
    agents.WritesWhenItLoads: (Rule.UNCHANGED, "load or train changed loaded.txt"),
}
RANDOM = {
    agents.KeepsItsGenerator: "load does not restore what is random",
    agents.SeedsItsGeneratorAnew: "the seed they were built with still shows",
    agents.UsesAGlobalGenerator: "save the states of all generators, also global ones",
    agents.LoadsWithoutASeed: "training is not deterministic",
}


def problems(report: Report) -> list[Rule]:
    return [finding.rule for finding in report.problems]


def found(report: Report, rule: Rule) -> Finding:
    (finding,) = (finding for finding in report.findings if finding.rule == rule)
    return finding


def raises(report: Report, words: str) -> None:
    with pytest.raises(AgentError, match=f"(?s){words}"):
        report.raise_for_problems()


@pytest.mark.parametrize("agent", SOUND)
@pytest.mark.parametrize("of", [lambda agent: agent, tied], ids=["", "tied"])
def test_there_is_nothing_to_say_against_a_sound_agent(agent: Any, of: Any) -> None:
    report = check_agent(of(agent), SPACE)
    assert {finding.status for finding in report.findings} == {"ok"}, str(report)
    assert {finding.rule for finding in report.findings} >= set(Rule) - {Rule.APPLIED, Rule.EVALUATED}
    report.raise_for_problems()


@pytest.mark.parametrize("agent", FAULTS)
@pytest.mark.parametrize("of", [lambda agent: agent, tied], ids=["", "tied"])
def test_a_fault_is_found_and_its_rule_named_even_if_scores_tie(agent: Any, of: Any) -> None:
    rule, words = FAULTS[agent]
    report = check_agent(of(agent), SPACE)
    assert problems(report) == [rule], str(report)
    raises(report, f"{rule}: .*{words}")


# Agents that are not deterministic, which may be meant


@pytest.mark.parametrize("agent", RANDOM)
@pytest.mark.parametrize("of", [lambda agent: agent, tied], ids=["", "tied"])
def test_loads_that_train_otherwise_are_a_warning_with_the_spread_of_their_scores(agent: Any, of: Any) -> None:
    report = check_agent(of(agent), SPACE)
    assert report.ok, str(report)
    finding = found(report, Rule.ALIKE)
    assert finding.status == "warning"
    assert RANDOM[agent] in finding.text
    assert re.search(r"standard deviation [\d.]+, from -?[\d.]+ to -?[\d.]+, of 6 loads", finding.text)
    assert found(report, Rule.COMPLETE).status == "ok"


def test_randomness_without_a_seed_is_found_before_and_after_a_load() -> None:
    report = check_agent(agents.HasNoSeed, SPACE)
    assert report.ok
    assert "those of one seed: training is not deterministic" in found(report, Rule.ALIKE).text
    assert found(report, Rule.SEED).status == "warning"
    assert "draw everything random from generators that the seed determines" in found(report, Rule.SEED).text


def test_hyperparameters_that_chance_hides_are_judged_by_what_applied_tells() -> None:
    report = check_agent(tied(agents.LoadsWithoutASeed), SPACE)
    assert found(report, Rule.HELD).text.startswith("lr, momentum: this cannot be decided")
    assert "give the agent applied()" in found(report, Rule.HELD).text
    report = check_agent(agents.RandomAndTells, SPACE)
    assert (found(report, Rule.HELD).status, found(report, Rule.USED).status) == ("ok", "ok")
    report = check_agent(agents.RandomAndLies, SPACE)
    assert problems(report) == [Rule.APPLIED]
    assert Rule.HELD not in {finding.rule for finding in report.findings}


def test_hyperparameters_that_lead_beyond_the_spread_hold_and_others_are_named() -> None:
    report = check_agent(agents.RandomButSteep, SPACE)
    assert found(report, Rule.ALIKE).status == "warning"
    assert found(report, Rule.HELD).status == "warning"
    assert found(report, Rule.HELD).text.startswith("momentum: this cannot be decided")
    steep = check_agent(agents.RandomButSteep, {"lr": (0.01, 0.2)})
    assert (found(steep, Rule.HELD).status, found(steep, Rule.USED).status) == ("ok", "ok")


def test_what_a_checkpoint_lacks_shows_beyond_the_spread() -> None:
    report = check_agent(agents.RandomAndForgetful, SPACE)
    finding = found(report, Rule.COMPLETE)
    assert finding.status == "warning"
    assert re.search("in memory got 2.* beyond the spread of those that load what it saved; save", finding.text)


def test_what_a_load_leaves_of_the_past_shows_beyond_the_spread() -> None:
    report = check_agent(agents.RandomWithAPast, SPACE)
    assert found(report, Rule.COMPLETE).status == "ok"
    assert "trained before got" in found(report, Rule.ALIKE).text
    assert "let load replace everything" in found(report, Rule.ALIKE).text


@pytest.mark.parametrize("agent", [agents.SavesTheTime, tied(agents.SavesTheTime), tied(agents.HasNoSeed)])
def test_where_equal_intervals_leave_different_files_scores_alone_count_and_the_report_says_so(agent: Any) -> None:
    report = check_agent(agent, SPACE)
    assert report.ok
    assert "scores alone are compared" in found(report, Rule.SEED).text
    if agent is agents.SavesTheTime:
        assert found(report, Rule.HELD).status == "ok"
    else:
        assert "files cannot be compared; let train return a finer score" in found(report, Rule.HELD).text


def test_a_single_hyperparameter_without_effect_is_a_warning_that_names_it() -> None:
    report = check_agent(agents.IgnoresMomentum, SPACE)
    assert report.ok
    (warning,) = report.warnings
    assert warning.rule == Rule.USED
    assert warning.text.startswith("momentum: another value must show")


def test_what_applied_tells_is_compared_with_what_was_asked_for() -> None:
    report = check_agent(agents.LiesAboutThem, SPACE)
    assert problems(report) == [Rule.HELD, Rule.APPLIED]
    raises(report, r"applied\(\) returns .*lr is [\d.]+, expected [\d.]+; momentum is")


def test_an_agent_that_changes_its_config_is_warned() -> None:
    class Pops(Sound):
        def train(self, config: dict[str, Any]) -> Any:
            return super().train({"momentum": config.pop("momentum")} | config)

    (warning,) = check_agent(Pops, SPACE).warnings
    assert warning.rule == Rule.CONFIG
    assert "let it work on a copy" in warning.text


def test_a_save_that_goes_on_after_it_returned_is_found(tmp_path: Path) -> None:
    class Late(Sound):
        last: Path | None = None

        def train(self, config: dict[str, Any]) -> Any:
            for folder in [] if self.last is None else self.last.parent.glob("checkpoint-*"):
                (folder / "late.bin").write_bytes(b"late")
            return super().train(config)

        def save(self, directory: Path) -> None:
            self.last = directory
            super().save(directory)

    report = check_agent(Late, SPACE)
    assert Rule.UNCHANGED in problems(report)
    assert "save, still writing after it returned, changed late.bin" in found(report, Rule.UNCHANGED).text


# What raises, and what is no score


@pytest.mark.parametrize("method", ["__init__", "train", "save", "load", "close", "applied"])
def test_whatever_an_agent_raises_is_in_the_report_with_its_place(method: str) -> None:
    def breaks(self: Any, *arguments: Any) -> None:
        raise LookupError(f"no luck in {method}")

    report = check_agent(type("Breaks", (Sound,), {method: breaks}), SPACE)
    assert problems(report) == [Rule.RUNS]
    raises(
        report, rf'raised\nTraceback .*{Path(__file__).name}", line \d+, in breaks.*LookupError: no luck in {method}'
    )
    assert "open      a checkpoint holds everything" in str(report) or method == "close"


def test_an_error_in_train_comes_with_the_config_it_was_given() -> None:
    class Picky(Sound):
        def train(self, config: dict[str, Any]) -> Any:
            if config["momentum"] > 0.4:
                raise SystemExit("too much")
            return super().train(config)

    raises(check_agent(Picky, SPACE), r"train\(\{'lr': .*'momentum': 0.[\d]+\}\) raised.*SystemExit: too much")


def test_an_agent_without_load_is_told_so() -> None:
    raises(check_agent(type("Half", (Sound,), {"load": None}), SPACE), "got .*Half.* without load; add it")


@pytest.mark.parametrize("score", [None, "high", True, [1.0]])
def test_what_is_no_number_is_no_score(score: Any) -> None:
    report = check_agent(type("Mute", (Sound,), {"score": lambda self: score}), SPACE)
    assert problems(report) == [Rule.SCORE]
    raises(report, "train must return a number or an Outcome, got")


def test_an_agent_that_always_fails_cannot_be_tried() -> None:
    report = check_agent(type("Fails", (Sound,), {"score": lambda self: math.nan}), SPACE)
    assert problems(report) == [Rule.SCORE]
    raises(report, "must reach a finite score, got none with 3 configurations")


def test_an_agent_that_fails_with_some_configurations_is_tried_with_others() -> None:
    first = next(contrasts(Space(SPACE), seed=0)).first

    class Fails(Sound):
        def train(self, config: dict[str, Any]) -> Any:
            score = super().train(config)
            return math.inf if config == first else score

    report = check_agent(Fails, SPACE)
    (warning,) = report.warnings
    assert (report.ok, warning.rule) == (True, Rule.SCORE)
    assert f"got inf with {first}" in warning.text


def test_a_space_that_is_none_is_the_callers_error() -> None:
    with pytest.raises(SpaceError):
        check_agent(Sound, {})


# What is tried, and what it costs


@pytest.mark.parametrize("name", spaces())
def test_agents_can_be_tried_on_every_kind_of_space(name: str) -> None:
    space = spaces()[name]
    asked: list[dict[str, Any]] = []

    class Agent(Sound):
        def train(self, config: dict[str, Any]) -> Any:
            asked.append(config)
            effect = zlib.crc32(repr(sorted(space.flatten(config).items())).encode()) / 2**32
            self.x = self.x + effect + self.noise()
            return self.score()

    report = check_agent(Agent, space)
    assert not report.problems, str(report)
    assert not report.warnings, str(report)
    for config in asked:
        assert space.nest(space.check(config)) == config


@pytest.mark.parametrize("name", spaces())
def test_a_contrast_differs_in_all_that_can_differ_and_then_in_one_thing_at_a_time(name: str) -> None:
    space = spaces()[name]
    for seed in range(5):
        contrast = next(contrasts(space, seed))
        first, second = space.check(contrast.first), space.check(contrast.second)
        free = {parameter.name for parameter in (*space.numerical, *space.categorical)}
        assert {name for name in first if name in free and first[name] == second.get(name)} == set()
        labels = {parameter.name: parameter.labels for parameter in space.categorical}
        for fixed in (first.keys() & free) - contrast.single.keys():
            for label in set(labels[fixed]) - {first[fixed]}:
                with pytest.raises(SpaceError, match="forbidden"):
                    space.check(first | {fixed: label})
        children = set(space.configuration_space.conditional_hyperparameters)
        for changed, config in contrast.single.items():
            differ = {key for key, _ in first.items() ^ space.check(config).items()}
            assert changed in differ
            assert differ - {changed} <= children


def test_a_space_with_nothing_to_vary_leaves_that_open() -> None:
    report = check_agent(Sound, {"lr": cs.Constant("lr", 0.1), "momentum": cs.Constant("momentum", 0.5)})
    assert report.ok
    assert {Rule.HELD, Rule.USED}.isdisjoint(finding.rule for finding in report.findings)


def test_the_intervals_are_told_as_they_begin_and_fewer_if_hyperparameters_are_not_tried_one_by_one() -> None:
    lines: list[str] = []
    report = check_agent(Sound, SPACE, progress=lines.append)
    assert report.costs is not None
    assert report.costs.intervals == len(lines) == 8
    assert lines[0] == "interval 1: a new agent"
    assert lines[-1] == "interval 8: from a checkpoint, with another value of momentum"
    quick = check_agent(agents.OptimizerRestoresTheRate, SPACE, each=False)
    assert quick.costs is not None
    assert (quick.ok, quick.costs.intervals) == (True, 6)


def test_every_agent_is_closed_and_hardly_two_live_at_a_time() -> None:
    alive: list[int] = [0]

    class Counts(Sound):
        def __init__(self, seed: int) -> None:
            super().__init__(seed)
            alive.append(alive[-1] + 1)

        def close(self) -> None:
            alive.append(alive[-1] - 1)

    assert check_agent(Counts, SPACE).ok
    assert (alive[-1], max(alive)) == (0, 1)


def test_costs_add_up_to_a_run() -> None:
    costs = Costs(
        build=30, train=54, save=3, load=2, size=25_000_000, intervals=8, population=4, rounds=50, recording=1, start=6
    )
    assert costs.interval == 60
    assert costs.overhead == 0.1
    assert costs.one_by_one == 6 + 4 * (30 + 50 * 60)
    assert costs.at_once == 6 + 30 + 50 * (2 + 54 + 3 + 4 * 1)  # One process records the members one after another.
    assert "an interval 60.0 s: load 2.0 s, train 54.0 s, save 3.0 s, record 1.0 s (10.0% for every" in str(costs)
    assert "25 MB." in str(costs)
    assert "4 members x 50 rounds take 3.4 h one after another, 53.1 min if all" in str(costs)
    assert "; 6.0 s of it to start." in str(costs)
    batched = replace(costs, batched=True)
    assert batched.one_by_one == 6 + 30 + 50 * (54 + 4 * (3 + 1))
    assert "save 3.0 s and record 1.0 s each (22.9% for saving and recording)" in str(batched)


def test_the_estimate_counts_what_a_run_does_besides_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    def seal_for_an_hour(draft: Path) -> None:
        seal(draft)
        ticks.append(3600.0)

    ticks = [0.0]
    monkeypatch.setattr(trials, "seal", seal_for_an_hour)
    monkeypatch.setattr(trials.time, "perf_counter", lambda: sum(ticks))
    monkeypatch.setattr(trials, "time_idle_run", lambda: (5.0, 60.0))
    costs = check_agent(Sound, SPACE, population=2, rounds=10).costs
    assert costs is not None
    assert (costs.load, costs.train, costs.save, costs.recording) == (0, 0, 3600, 60)
    assert costs.one_by_one == 5 + 2 * 10 * 3660


def test_the_time_that_a_run_takes_for_an_interval_is_measured_on_one_that_does_nothing() -> None:
    assert min(time_idle_run()) > 0
    costs = check_agent(Sound, SPACE).costs
    assert costs is not None
    assert (costs.start, costs.recording) == time_idle_run()


def test_the_start_of_a_process_is_counted_where_members_train_in_processes() -> None:
    report = check_agent(Sound, SPACE, engine="processes")
    assert report.costs is not None
    assert report.ok
    assert report.costs.start > time_idle_run()[0]
    unsent = check_agent(lambda seed: Sound(seed), SPACE, engine="processes")
    assert "it must be a function or class at the top level of a module" in found(unsent, Rule.RUNS).text
    assert unsent.costs is not None
    assert unsent.costs.start == time_idle_run()[0]


@pytest.mark.parametrize(("engine", "status"), [("threads", "warning"), ("in-process", "ok")])
def test_a_global_generator_is_a_warning_for_members_in_threads(engine: Any, status: str) -> None:
    finding = found(check_agent(agents.UsesAGlobalGenerator, SPACE, engine=engine), Rule.SHARED)
    assert finding.status == status
    assert finding.text.startswith("make_agent uses the global generator of random")
    assert "threads" in finding.text
    sound = found(check_agent(Sound, SPACE, engine=engine), Rule.SHARED)
    assert (sound.status, sound.text) == ("ok", "")


def test_a_report_reads_well_in_a_terminal_whatever_the_findings_contain() -> None:
    text = "got [red]brackets[/red] and {braces}; " + "mend it " * 20
    report = Report((Finding(Rule.SCORE, "ok"), Finding(Rule.SEED, "problem", text)))
    lines = str(report).splitlines()
    assert lines[:2] == ["ok        train returns a finite score", "problem   the same seed trains alike"]
    assert lines[2].startswith("          got [red]brackets[/red] and {braces}; mend it")
    assert all(len(line) <= 100 for line in lines)
    console = Console(width=60, record=True, force_terminal=True, file=StringIO())
    console.print(report)
    assert "problem   the same seed trains alike" in console.export_text()
