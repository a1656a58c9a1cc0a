"""What a report says of a run in sentences."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import Population
from popbandits.history import History, Observation
from popbandits.reports.figures.effects import effects
from popbandits.reports.html import findings
from popbandits.reports.run import Run, label_names
from popbandits.reports.words import never_explored, spans, summary, unclear_effects, what_mattered
from popbandits.run.experiment import record_of
from popbandits.run.recorder import Recorder
from popbandits.storage import Store
from tests.reports.played import Clumsy, play


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
    how, best, way = summary(run)
    assert how.startswith("The run is finished: Patient PBT trained 4 members for 12 of 12 rounds")
    leader = run.history.best
    assert leader is not None
    assert f"(member {leader.member}, round {leader.round})" in best
    assert "more is better" in best
    assert f" {len(run.deciding)} configurations were explored, in " in how
    assert how.endswith(" s altogether; none fell back to sampling.")
    assert f"{len(spans(run))} configurations" in way


def test_a_run_without_a_completed_interval_says_so(tmp_path: Path) -> None:
    history = History({"x": (0.0, 1.0)}, [Observation(0, 0, {"x": 0.5}, status="failed")])
    history.save(tmp_path)
    assert "nothing to compare" in summary(Run.read(tmp_path))[-1]


def test_what_tuning_gained_over_the_control_is_told_with_its_noise(tmp_path: Path) -> None:
    def run(name: str, ahead: list[float]) -> Run:
        population = Population({"x": (0.0, 1.0)}, "pbt", size=2, rounds=len(ahead), start={"x": 0.5}, control=True)
        store = Store.create(tmp_path / name, population.space, record_of(population.plan))
        recorder = Recorder(population, store)
        for lead in ahead:
            for assignment in recorder.ask():
                recorder.tell(assignment, lead if assignment.member else 0.0)
        store.close()
        return Run.read(tmp_path / name)

    said = summary(run("ahead", [1.0, 5.0, 1.0, 2.0, 3.0]))[-1]
    assert said.startswith("Over its last 3 rounds the member that is best in the end was ahead of the control, ")
    assert said.endswith(" by 2 on average (two standard errors: 0.8453 to 3.155).")
    assert "tuning gained nothing" in summary(run("behind", [1.0, -1.0]))[-1]
    assert summary(run("short", [1.0, 2.0]))[-1].startswith("It takes 3 rounds to say what tuning gained")


def test_the_winning_schedule_is_told_in_spans_that_cover_it_once(tmp_path: Path) -> None:
    run = Run.read(play(tmp_path / "run", Clumsy))
    way = spans(run)
    rounds = [r for span in way for r in range(span.first, span.last + 1)]
    lineage = run.history.lineage()
    assert len([step for step in lineage if step.round in rounds]) == len(lineage)
    assert all(a.config != b.config for a, b in pairwise(way))
    assert (way[-1].last, way[-1].score) == (lineage[-1].round, lineage[-1].score)


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


def test_what_nobody_entered_is_named_at_the_ends_and_in_between(tmp_path: Path) -> None:
    space = {"x": (0.0, 1.0), "depth": (1, 4), "act": ["relu", "tanh", None]}
    configs = [{"x": x, "depth": depth, "act": "relu"} for x, depth in [(0.3, 2), (0.4, 2), (0.7, 4)]]
    run = told(tmp_path, space, configs, [1.0, 2.0, 3.0])
    assert sorted(never_explored([run])) == [
        "act: tanh, None",
        "depth: below 2",
        "depth: between 2 and 4",
        "x: above 0.7",
        "x: below 0.3",
        "x: between 0.4 and 0.7",
    ]


def test_what_everybody_entered_is_not_named(tmp_path: Path) -> None:
    configs = [{"x": x / 9, "depth": 1 + i % 2} for i, x in enumerate(range(10))]
    run = told(tmp_path, {"x": (0.0, 1.0), "depth": (1, 2)}, configs, [float(i) for i in range(10)])
    assert never_explored([run]) == []


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
