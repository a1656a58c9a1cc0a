"""Test what PB2-Mix's model saw in stored runs: by these figures docs/procgen_results.md explains its sleep."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from popbandits import History
from popbandits_experiments.paper.procgen.model_view import LOW, STORED, VIEWS, changes, look, main


@pytest.fixture(scope="module")
def asleep() -> History:
    return History.load(STORED[1])


def test_scores_fall_after_a_copy_whatever_the_rate_and_low_rates_lose_where_members_go_on(asleep: History) -> None:
    found = changes(asleep)
    assert sum(map(len, found.values())) == sum(one.parent is not None for one in asleep)
    for low in (True, False):
        assert found[False, low].mean() < -1
    assert found[True, True].mean() < 0 < found[True, False].mean()


def test_a_model_of_continued_intervals_stays_awake_but_tells_configurations_hardly_apart(asleep: History) -> None:
    rounds = range(26, 50)  # All of the second half: where two rates are nearly level, rounding decides.
    seen = {view: [*look(asleep, VIEWS[view], rounds)] for view in ("every interval", "continued only")}
    shares = {view: np.mean([sight.best <= LOW for sight in sights]) for view, sights in seen.items()}
    assert shares["every interval"] > 0.8
    assert shares["continued only"] < 0.2
    spreads = {view: np.median([sight.spread for sight in sights]) for view, sights in seen.items()}
    assert spreads["every interval"] > 0.2
    assert spreads["continued only"] < 0.1


def test_the_same_model_tells_configurations_apart_where_the_rate_decides(asleep: History) -> None:
    """The control for the test above: the same configurations and copies, but changes that follow the rate."""
    scores: dict[tuple[int, int], float] = {}
    steep = History(asleep.space, size=asleep.size, rounds=asleep.rounds)
    lr = [number.name for number in asleep.space.numerical].index("lr")
    rates = asleep.space.encode([one.config for one in asleep]).x[:, lr]
    for one, rate in zip(asleep, rates, strict=True):
        before = float("nan") if one.parent is None else scores[one.parent]
        scores[one.key] = (0.0 if one.parent is None else before) + 10 * float(rate)
        steep.append(replace(one, score_before=before, score=scores[one.key], decision={}))
    seen = [*look(steep, VIEWS["continued only"], range(26, 50, 4))]
    assert np.median([sight.spread for sight in seen]) > 0.8


def test_both_tables_are_printed_and_the_figure_is_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([str(STORED[1]), "--every", "24", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "| seed 1 | every interval" in text
    assert "continued, higher rate" in text
    assert (tmp_path / "procgen-model.png").stat().st_size > 10_000
