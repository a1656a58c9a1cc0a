"""The synthetic experiment: its arithmetic by hand, its floors, and the same numbers however it is run."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import methods as registry
from popbandits.errors import ArgumentError
from popbandits.explorers import Explorer
from popbandits.history import History, Observation
from popbandits.methods import Method
from popbandits_experiments.methods import ALL_METHODS as METHODS
from popbandits_experiments.paper.results import Results
from popbandits_experiments.paper.synthetic import SPACE, Synthetic, first_regrets, floor, regrets, run

TINY = Synthetic(("pbt", "pb2-mix"), sizes=(2, 3), seeds=2, rounds=4, floor_draws=50)


@pytest.fixture(scope="module")
def tiny() -> Results:
    return TINY.run(workers=1)


def test_regret_is_as_worked_out_by_hand() -> None:
    half, most = {"h": "sin", "x": math.pi / 6}, {"h": "cos", "x": math.acos(0.9)}
    best, poor = {"h": "cos", "x": 0.0}, {"h": "sin", "x": math.asin(0.2)}
    history = History(
        SPACE,
        [
            Observation(0, 0, half, score_before=0.0, score=0.5),
            Observation(1, 0, most, score_before=0.0, score=0.9),
            Observation(0, 1, best, parent=(1, 0), score_before=0.9, score=1.9),  # an exploit: the winner
            Observation(1, 1, poor, parent=(1, 0), score_before=0.9, score=1.1),
        ],
        size=2,
        rounds=2,
    )
    mean, winner = regrets(history, 2)
    assert mean == pytest.approx([(0.5 + 0.1) / 2, (0.5 + 0.1) / 2 + (0.0 + 0.8) / 2])
    assert winner == pytest.approx([0.1, 0.1])


def test_random_search_pays_for_its_first_round_again_and_again() -> None:
    first = first_regrets(4, seed=3)
    result = run("random", 4, seed=3, rounds=5)
    assert result.mean == pytest.approx(np.mean(first) * np.arange(1, 6))
    assert result.best == pytest.approx(min(first) * np.arange(1, 6))
    assert result.fallbacks == 0
    assert result.seconds > 0


LEANING = {"near-pbt", "patient-pbt"}
"""Methods whose first numbers lean to the middle."""


@pytest.mark.parametrize("method", sorted(METHODS.keys() - LEANING))
def test_every_method_meets_the_same_first_round(method: str) -> None:
    assert run(method, 3, seed=1, rounds=2).mean[0] == pytest.approx(np.mean(first_regrets(3, seed=1)))


class Perfect(Explorer):
    """Knows the answer."""

    def explore(self, *_: Any) -> dict[str, Any]:
        return {"h": "sin", "x": math.pi / 2}


class PerfectMethod(Method):
    def make(self) -> Explorer:
        return Perfect()


@pytest.mark.parametrize(("size", "explore"), [(4, "replaced"), (8, "replaced"), (4, "all")])
def test_a_perfect_explorer_in_a_real_population_reaches_the_floor(
    size: int, explore: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.METHODS, "perfect", PerfectMethod("Perfect", "", explore))
    runs = [run("perfect", size, seed, rounds=12) for seed in range(20)]
    bound = floor(size, 12, explore, "same", seeds=20)
    assert np.mean([one.mean for one in runs], axis=0) == pytest.approx(bound.mean, abs=0.01)
    assert np.mean([one.best for one in runs], axis=0) == pytest.approx(bound.best, abs=0.015)


@pytest.mark.parametrize(
    ("size", "options", "expected"),
    [
        (4, {}, 0.65),
        (8, {}, 0.62),
        (12, {}, 0.61),
        (4, {"quantile": 0.5}, 0.44),
        (8, {"quantile": 0.5}, 0.43),
        (12, {"quantile": 0.5}, 0.42),
        (8, {"explore": "all"}, 0.36),
    ],
)
def test_the_floor_is_the_known_one(size: int, options: dict[str, Any], expected: float) -> None:
    assert floor(size, 50, **options).mean[-1] == pytest.approx(expected, abs=0.012)


@pytest.mark.slow  # Two processes take seconds to start; the ground's decide in processes in every test.
def test_one_worker_and_two_find_the_same_numbers(tiny: Results) -> None:
    done: list[None] = []
    assert TINY.run(workers=2, done=lambda: done.append(None)) == tiny
    assert len(done) == len(TINY.jobs())


def test_results_have_every_run_and_floor(tiny: Results) -> None:
    assert (tiny.methods, tiny.sizes, tiny.seeds, tiny.rounds) == (["pbt", "pb2-mix"], [2, 3], 2, 4)
    assert tiny.runs[0] == run("pbt", 2, seed=0, rounds=4)
    assert [(one.explore, one.start, one.size) for one in tiny.floors] == [
        (explore, start, size) for size in (2, 3) for explore, start in (("replaced", "same"), ("replaced", "any"))
    ]


def test_results_are_all_in_their_file(tiny: Results, tmp_path: Path) -> None:
    content = json.loads(tiny.save(tmp_path).read_text("utf-8"))
    assert content == json.loads(json.dumps({"experiment": "synthetic", **asdict(tiny)}))
    assert (len(content["runs"]), content["arguments"]["seeds"]) == (2 * 2 * 2, 2)
    assert content["runs"][-1]["mean"] == list(tiny.of("pb2-mix", 3)[-1].mean)
    assert set(content["made"]) == {"date", "seconds", "workers", "python", "system", "versions"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": ("pb3",)}, "methods: unknown name 'pb3'; choose from random, pbt, "),
        ({"methods": ()}, "methods must be one or more, without repeats, got none"),
        ({"methods": ("pbt", "pbt")}, "methods must be one or more, without repeats, got pbt pbt"),
        ({"sizes": ()}, "sizes must be one or more, without repeats, got none"),
        ({"sizes": (4, 4)}, "sizes must be one or more, without repeats, got 4 4"),
        ({"sizes": (4, 1)}, "sizes must be at least 2, got 1"),
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"floor_draws": 0}, "floor_draws must be at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Synthetic(**arguments)
