"""What a report says of a run in sentences."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits.history import History, Observation
from popbandits.reports.figures.effects import effects
from popbandits.reports.run import Run, label_names
from popbandits.reports.words import never_explored, spans, summary, what_mattered
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
    assert f"{len(spans(run))} configurations" in way


def test_a_run_without_a_completed_interval_says_so(tmp_path: Path) -> None:
    history = History({"x": (0.0, 1.0)}, [Observation(0, 0, {"x": 0.5}, status="failed")])
    history.save(tmp_path)
    assert "nothing to compare" in summary(Run.read(tmp_path))[-1]


def test_the_winning_schedule_is_told_in_spans_that_cover_it_once(tmp_path: Path) -> None:
    run = Run.read(play(tmp_path / "run", Clumsy))
    way = spans(run)
    rounds = [r for span in way for r in range(span.first, span.last + 1)]
    lineage = run.history.lineage()
    assert len([step for step in lineage if step.round in rounds]) == len(lineage)
    assert all(a.config != b.config for a, b in pairwise(way))
    assert way[-1].end == lineage[-1].key


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
    assert any(line.startswith("good: more was better with way = up (t\u00a0=\u00a0+") for line in said)
    assert any(line.startswith("good: less was better with way = down (t\u00a0=\u00a0-") for line in said)
    assert not any("good" in line and "all intervals" in line for line in said)


def test_the_first_interval_has_no_measured_change(tmp_path: Path) -> None:
    space = {"x": (0.0, 1.0)}
    configs, scores = [{"x": x} for x in (0.9, 0.1, 0.5, 0.7, 0.2)], [100.0, 100.1, 100.6, 101.25, 101.5]
    (found,) = effects([told(tmp_path, space, configs, scores)])
    assert found.found.count == 4


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
