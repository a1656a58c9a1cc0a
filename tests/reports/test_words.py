"""What a report says of a run in sentences."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import PBT, Population
from popbandits.advice import advise, outlook, score_noise
from popbandits.history import History, Observation
from popbandits.reports.figures.effects import effects
from popbandits.reports.gained import gain_over_start
from popbandits.reports.html import findings
from popbandits.reports.run import Run, label_names
from popbandits.reports.single import copies_table, interval_table, report_page
from popbandits.reports.words import (
    never_explored,
    next_steps,
    summary,
    told_gain,
    unclear_effects,
    what_mattered,
)
from popbandits.run.experiment import record_of
from popbandits.run.recorder import Recorder
from popbandits.selection.choice import Candidate, Choice
from popbandits.storage import Store
from tests.reports.played import Clumsy, play
from tests.warned_runs import stuck_then_rising


def told(directory: Path, space: Any, configs: list[dict[str, Any]], scores: list[float]) -> Run:
    """One member, a configuration and a score a round."""
    history = History(space, size=1)
    before = math.nan
    for i, (config, score) in enumerate(zip(configs, scores, strict=True)):
        parent = (0, i - 1) if i else None
        history.append(Observation(0, i, config, parent=parent, score_before=before, score=score))
        before = score
    history.save(directory)
    return Run.read(directory)


def test_the_summary_names_the_best_score_and_how_it_was_reached(tmp_path: Path) -> None:
    run = Run.read(play(tmp_path / "run", method=None))
    how, best, handed, way = summary(run)
    assert how.startswith("The run is finished: PBT trained 4 members for 12 of 12 rounds")
    leader = run.history.best
    assert leader is not None
    assert f"(member {leader.member}, round {leader.round})" in best
    assert "more is better" in best
    assert f" {len(run.deciding)} configurations were explored, in " in how
    assert how.endswith("s altogether; none fell back to sampling.")
    line = [o.config for o in run.winner]
    assert f"went through {1 + sum(a != b for a, b in pairwise(line))} configurations" in way
    assert handed.startswith("It hands over member ")


def test_a_run_without_a_completed_interval_says_so(tmp_path: Path) -> None:
    history = History({"x": (0.0, 1.0)}, [Observation(0, 0, {"x": 0.5}, status="failed")])
    history.save(tmp_path)
    run = Run.read(tmp_path)
    assert gain_over_start(run) is None
    assert "nothing to compare" in told_gain(None)
    assert next_steps(run, None) == [("Mend what fails", "1 of 1 interval failed; the last: its score was NaN", "")]


def test_failed_intervals_are_the_first_thing_to_mend(tmp_path: Path) -> None:
    run = Run.read(play(tmp_path, Clumsy))
    failed = [o for o in run.history if o.failed]
    what, why, _ = next_steps(run, gain_over_start(run))[0]
    assert what == "Mend what fails"
    assert why.startswith(f"{len(failed)} of 48 intervals failed; the last: ValueError: it fell ")
    whole = Run.read(play(tmp_path / "whole"))
    assert "Mend what fails" not in [step[0] for step in next_steps(whole, gain_over_start(whole))]


def with_control(directory: Path, ahead: list[float], level: float = 0.0) -> Run:
    population = Population({"x": (0.0, 1.0)}, "pbt", size=2, rounds=len(ahead), start={"x": 0.5}, control=True)
    store = Store.create(directory, population.space, record_of(population.plan))
    recorder = Recorder(population, store)
    for lead in ahead:
        for assignment in recorder.ask():
            recorder.tell(assignment, level + lead if assignment.member else level)
    store.close()
    return Run.read(directory)


def test_what_tuning_gained_over_the_control_is_told_with_its_noise(tmp_path: Path) -> None:
    gain = gain_over_start(with_control(tmp_path / "ahead", [5.0] * 5 + [1.0, 2.0, 3.0]))
    assert gain is not None
    assert (gain.over, gain.whole, gain.clear, str(gain)) == ("the control", True, True, "+2 ± 1.2")
    assert told_gain(gain) == (
        "In rounds 5 to 7 the member that is best in the end was ahead of the control (member 0, on record until "
        "round 7), by 2 ± 1.2 on average (two standard errors)."
    )
    behind = gain_over_start(with_control(tmp_path / "behind", [-1.0] * 8))
    assert told_gain(behind).endswith("tuning gained nothing.")
    assert str(behind) == "–"
    why = dict(step[:2] for step in next_steps(with_control(tmp_path / "no", [1.0, -1.0]), behind))["Doubt the gain"]
    assert why.startswith("At the end no member is ahead of the control: try other ranges")


def test_the_gain_does_not_contradict_what_is_handed_over(tmp_path: Path) -> None:
    fell = with_control(tmp_path / "fell", [1.0] * 7 + [-1.0])
    said = told_gain(gain_over_start(fell))
    assert said == (
        "At the end no member's score is ahead of the control (member 0, on record until round 7), but the run hands "
        "over member 1, round 6: 1, the best score."
    )
    ahead = with_control(tmp_path / "ahead", [2.0] * 8)
    control = Candidate(ahead.history[-2], 0.5, 0.1)
    assert control.observation.member == 0
    evaluated = replace(ahead, choice=Choice(control, "evaluated", (control,), 10))
    assert "hands over" not in told_gain(gain_over_start(ahead))
    assert told_gain(gain_over_start(evaluated)).endswith(
        "by 2 ± 0 on average (two standard errors). But the run hands over an interval of the control: member 0, "
        "round 7: 0.5 ± 0.1 in 10 evaluations, the only candidate."
    )


def test_scores_that_are_equal_up_to_rounding_differ_by_nothing(tmp_path: Path) -> None:
    ulp = float(np.spacing(5.1))
    run = with_control(tmp_path / "ahead", [ulp * (1 + t % 2) for t in range(30)], 5.1)
    assert {float(change) for change in np.diff(run.scores[:, 1])} == {-ulp, ulp}
    columns, rows, _ = interval_table(run)
    assert {row[columns.index("change")] for row in rows} == {None, 0.0}
    gain = gain_over_start(run)
    assert gain is not None
    assert str(gain) == "0 ± 0"
    assert not gain.clear
    assert " the member that is best in the end was level with the control (" in told_gain(gain)
    assert run.choice is not None
    assert run.choice.reason == "score"
    assert np.nanmax(np.abs(run.gains)) == 0
    assert outlook(run.history) is None
    assert "to the last the interquartile mean of its score changed by 0." in advise(run.history)[-1].text
    columns, rows, _ = copies_table(with_control(tmp_path / "both", [ulp * (t % 2) for t in range(9)], 5.1))
    assert {row[columns.index(name)] for row in rows for name in ("change", "beside its round")} == {0.0}


@pytest.mark.parametrize("last", [1.0, -1.0], ids=["ahead", "behind"])
def test_of_a_young_run_no_gain_is_told(tmp_path: Path, last: float) -> None:
    for rounds in (1, 7):
        run = with_control(tmp_path / str(rounds), [1.0] * (rounds - 1) + [last])
        gain = gain_over_start(run)
        assert str(gain) == f"– ({rounds} of 8 rounds)"
        assert told_gain(gain) == (
            f"It takes 8 rounds of training beside the control (member 0, on record until round {rounds - 1}) to say "
            f"what tuning gained; there {'is 1' if rounds == 1 else f'are {rounds}'}."
        )
        assert "Doubt the gain" not in [step[0] for step in next_steps(run, gain)]


def test_where_nothing_was_tuned_no_gain_is_told_and_no_control_is_asked_for(tmp_path: Path) -> None:
    alone = Run.read(play(tmp_path / "alone", population=1, method=PBT()))
    fixed = Run.read(play(tmp_path / "fixed", space={"lr": [0.001], "augmentation": ["crop"]}, method=PBT()))
    for run in (alone, fixed):
        gain = gain_over_start(run)
        assert str(gain) == "–"
        assert told_gain(gain).startswith("Every interval trained with the same configuration: nothing was tuned")
        steps = {step[0] for step in next_steps(run, gain)}
        assert steps.isdisjoint({"Doubt the gain", "Keep a control", "Use the winner's values", "Replay the schedule"})
        page, (first, *_) = report_page(run, lambda: "")
        assert "gained over" not in page
        assert "Grey:" not in first.caption


def test_an_agent_alone_that_tries_others_is_not_asked_to_keep_a_control(tmp_path: Path) -> None:
    run = Run.read(play(tmp_path, population=1, explore="all", method=PBT()))
    gain = gain_over_start(run)
    assert gain is not None
    assert gain.tuned
    steps = {step[0] for step in next_steps(run, gain)}
    assert "Replay the schedule" in steps
    assert "Keep a control" not in steps  # There is nobody else to be one.


def test_a_control_that_is_a_round_behind_trains_on(tmp_path: Path) -> None:
    run = with_control(tmp_path / "whole", [1.0] * 10)
    # Read before the control ended its last round, as a live page may.
    history = History(run.space, size=2)
    history.extend(o for o in run.history if o.key != (0, 9))
    with Store.create(tmp_path / "behind", run.space, run.about) as store:
        store.extend(history)
    said = told_gain(gain_over_start(Run.read(tmp_path / "behind")))
    assert "ahead of the control (member 0, on record until round 8)" in said
    assert "Nobody" not in said


def started(
    directory: Path, start: bool, rounds: int = 30, kept: int = 10, gap: float = 0.5, noise: float = 0.1
) -> Run:
    """Four members; member 0 gives up its first configuration after some rounds and goes on from member 3's weights."""
    history, rng = History({"lr": (0.0, 1.0)}, size=4, rounds=rounds), np.random.default_rng(0)
    for t in range(rounds):
        for m in range(4):
            copies = m == 0 and t >= kept
            parent = None if not t else (3, t - 1) if copies and t == kept else (m, t - 1)
            source = None if parent is None else history.find(parent)
            score = 0.05 * t + gap * (3 if copies else m) / 3 + noise * rng.normal()
            config = {"lr": 0.9 if copies else 0.1 + 0.2 * m}
            history.append(Observation(m, t, config, parent, source.score if source else math.nan, score))
    about = {"size": 4, "rounds": rounds, "start": [{"config": {"lr": 0.1}, "decision": {}}] if start else []}
    with Store.create(directory, history.space, about) as store:
        store.extend(history)
    return Run.read(directory)


def test_without_a_control_the_start_counts_as_far_as_the_record_has_it(tmp_path: Path) -> None:
    run = started(tmp_path / "run", start=True)
    gain, final = gain_over_start(run), run.final
    assert gain is not None
    assert final is not None
    assert gain.over == "the start"
    assert [o.key for o in gain.line] == [(0, t) for t in range(10)]
    assert not gain.whole
    assert gain.rounds == [7, 8, 9]
    line = {o.round: o.score for o in run.history.lineage(final)}
    leads = [line[t] - run.scores[t, 0] for t in gain.rounds]
    assert gain.lead == pytest.approx(np.mean(leads))
    spread = 2 * np.std(leads, ddof=1) / math.sqrt(3)
    noise = score_noise(run.history)
    assert noise is not None
    assert gain.error == pytest.approx(max(spread, 2 * math.sqrt(2 * noise / 3)))
    said = told_gain(gain)
    assert "ahead of the start (member 0, on record until round 9)" in said
    assert said.endswith("Nobody trained that to the end.")
    assert "Keep a control" in dict(step[:2] for step in next_steps(run, gain))
    early = gain_over_start(started(tmp_path / "early", start=True, kept=3))
    assert str(early) == "– (3 of 8 rounds)"
    assert told_gain(early) == (  # More rounds would not help.
        "It takes 8 rounds of training beside the start (member 0, on record until round 2) to say what tuning gained; "
        "there are 3. Nobody trained that to the end."
    )


def test_without_a_start_the_first_configuration_that_was_kept_longest_counts(tmp_path: Path) -> None:
    run = started(tmp_path / "run", start=False, gap=0.0)
    gain, final = gain_over_start(run), run.final
    assert gain is not None
    assert final is not None
    assert gain.over == "a first configuration"
    assert gain.line[0].member != 0  # Member 0 gave up its own.
    assert len(gain.line) == 30
    assert gain.whole
    if final.member:  # The winner still trains with its first one.
        assert told_gain(gain).endswith("tuning gained nothing.")


def test_what_to_do_next_is_what_advice_and_the_gain_say(tmp_path: Path) -> None:
    run = started(tmp_path / "my run", start=True)
    steps = {what: (why, command) for what, why, command in next_steps(run, gain_over_start(run))}
    rising = outlook(run.history)
    assert rising is not None
    command = f"popbandits resume '{run.directory}' --rounds 45"
    assert steps["Train for more rounds"] == (rising.text, command)
    limited = replace(run, about={**run.about, "max_cost": 2.5})  # Without more, it would stop again at once.
    assert ("Train for more rounds", rising.text, f"{command} --max-cost 5") in next_steps(limited, None)
    training = replace(run, status=replace(run.status, state="running"))  # It cannot be resumed.
    assert ("Train for more rounds", rising.text, "") in next_steps(training, None)
    assert "More rounds promise little" not in steps
    stuck_then_rising("lr").prefix(60).save(tmp_path / "stuck")
    stuck = Run.read(tmp_path / "stuck")
    steps = {what: (why, command) for what, why, command in next_steps(stuck, gain_over_start(stuck))}
    [advice] = advise(stuck.history)
    assert steps["More rounds promise little"] == (advice.text, "")
    assert steps.keys().isdisjoint({"Train for more rounds", "Replay the schedule"})
    assert "Use the winner's values" in steps  # They never changed.
    noisy = started(tmp_path / "noisy", start=True, gap=0.0, noise=1.0)
    steps = {what: (why, command) for what, why, command in next_steps(noisy, gain_over_start(noisy))}
    assert {"Measure better", "Doubt the gain"} <= steps.keys()


def test_what_mattered_names_the_rule_that_the_scores_follow(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    # The same values both ways, so that the two cancel over all intervals.
    good = np.repeat(rng.random(40), 2).tolist()
    configs = [{"good": x, "idle": float(rng.random()), "way": ["up", "down"][i % 2]} for i, x in enumerate(good)]
    steps = [(1 if config["way"] == "up" else -1) * config["good"] + 0.01 * rng.normal() for config in configs]
    run = told(
        tmp_path, {"good": (0.0, 1.0), "idle": (0.0, 1.0), "way": ["up", "down"]}, configs, np.cumsum(steps).tolist()
    )
    said = what_mattered(effects([run]))
    assert any(line.startswith("good: more was better with way = up (rank correlation +0.9") for line in said)
    assert any(line.startswith("good: less was better with way = down (rank correlation -0.9") for line in said)
    assert not any("good" in line and "all intervals" in line for line in said)


def test_the_first_interval_has_no_measured_change(tmp_path: Path) -> None:
    space = {"x": (0.0, 1.0)}
    configs = [{"x": x} for x in (0.9, 0.1, 0.5, 0.7, 0.2, 0.3, 0.4, 0.6, 0.8)]
    scores = [100.0, 100.1, 100.6, 101.25, 101.5, 101.7, 102.0, 102.7, 103.5]
    (found,) = effects([told(tmp_path, space, configs, scores)])
    assert found.found is not None
    assert found.found.count == 8


SETTINGS = {f"setting {i}": (0.0, 1.0) for i in range(7)} | {"kind": ["a", "b"]}


def drawn(rng: np.random.Generator, kind: str = "a") -> dict[str, Any]:
    """Draw a configuration."""
    return {name: float(rng.random()) for name in SETTINGS if name != "kind"} | {"kind": kind}


def heard(directory: Path, configs: list[dict[str, Any]], gains: list[float]) -> tuple[list[str], list[str]]:
    """What a report says mattered, and what it says is not clear."""
    run = told(directory, SETTINGS, configs, np.cumsum(gains).tolist())
    found = effects([run])
    return what_mattered(found), unclear_effects([run], found)


def test_one_crash_among_equal_configurations_tells_nothing_of_seven_settings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    usual, other = drawn(rng), drawn(rng)
    gains = (1 + 0.5 * rng.normal(size=40)).tolist()
    gains[25] = -500.0
    said, untold = heard(tmp_path, [other if i == 25 else usual for i in range(40)], gains)
    assert said == []
    (why,) = untold
    assert why.startswith("This run cannot tell what the hyperparameters did: that takes 8 configurations")
    page = findings(said, untold, [])
    assert "cannot tell what the hyperparameters did" in page
    assert "clear effect" not in page


def test_a_few_configurations_kept_for_long_count_as_few(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    few = [drawn(rng) for _ in range(4)]
    gains = [i % 4 + 0.1 * rng.normal() for i in range(80)]
    said, untold = heard(tmp_path, [few[i % 4] for i in range(80)], gains)
    assert said == []
    assert "cannot tell what the hyperparameters did" in untold[0]


def test_a_setting_that_hardly_anybody_changed_is_named_as_one_that_cannot_be_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    configs = [drawn(rng) | {"setting 2": 0.9 if i == 20 else 0.5} for i in range(40)]
    gains = [config["setting 1"] + 0.05 * rng.normal() - (900 if i == 20 else 0) for i, config in enumerate(configs)]
    said, untold = heard(tmp_path, configs, gains)
    assert said[0].startswith("setting 1: more was better over all intervals (rank correlation +0.8")
    assert {line.partition(":")[0] for line in said} == {"setting 1"}
    (why,) = untold
    assert "cannot tell what setting 2 did" in why


def test_a_crash_hides_no_effect_that_all_others_show(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    configs = [drawn(rng, "ab"[i % 2]) for i in range(40)]
    gains = [0.2 * config["setting 0"] + 0.01 * rng.normal() for config in configs]
    gains[max(range(1, 40), key=lambda i: configs[i]["setting 0"])] = -500.0
    said, untold = heard(tmp_path, configs, gains)
    assert said[0].startswith("setting 0: more was better over all intervals")
    assert untold == []


def test_what_had_no_clear_effect_is_told_from_what_cannot_be_judged(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    configs = [drawn(rng) for _ in range(20)]
    said, untold = heard(tmp_path / "all", configs, rng.normal(size=20).tolist())
    assert (said, untold) == ([], ["No hyperparameter had a clear effect on the gain beside others."])
    same = [config | {"setting 6": 0.5} for config in configs]
    said, (clear, why) = heard(tmp_path / "but one", same, rng.normal(size=20).tolist())
    assert said == []
    assert clear.startswith(
        "None of setting 0, setting 1, setting 2, setting 3, setting 4, setting 5 had a clear effect"
    )
    assert why.startswith("This run cannot tell what setting 6 did")


def test_noise_is_rarely_taken_for_an_effect(tmp_path: Path) -> None:
    spoke = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        configs = [drawn(rng, "ab"[i % 2]) for i in range(40)]
        gains = rng.standard_cauchy(size=40).tolist()
        spoke += bool(heard(tmp_path / str(seed), configs, gains)[0])
    assert spoke <= 3


def test_labels_that_nobody_trained_with_are_named(tmp_path: Path) -> None:
    space = {"x": (0.0, 1.0), "act": ["relu", "tanh", None], "norm": [True, False]}
    configs = [{"x": 0.3, "act": "relu", "norm": norm} for norm in (True, False, True)]
    assert never_explored([told(tmp_path, space, configs, [1.0, 2.0, 3.0])]) == ["act: tanh, None"]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (("a", "a (2)", None), ["a", "a (2)", "None"]),
        (("x" * 99, "x" * 98), ["x" * 59 + "…", "x" * 59 + "… (2)"]),
        (("",), ["(empty)"]),
    ],
)
def test_labels_have_names_that_differ(labels: tuple[Any, ...], names: list[str]) -> None:
    assert label_names(labels) == names


def test_a_space_without_labels_is_not_told_of_labels(tmp_path: Path) -> None:
    run = told(tmp_path, {"x": (0.0, 1.0)}, [{"x": 0.5}], [1.0])
    assert "Labels" not in findings([], [], never_explored([run]))
    assert "Labels that were never tried" in findings([], [], ["act: tanh"])
