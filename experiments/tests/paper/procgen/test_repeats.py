"""Which members of two runs count as the same agent, and how many of their intervals are equal."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from experiments.tests.paper.procgen.test_tables import SETTINGS
from popbandits.history import Observation
from popbandits.space import Space
from popbandits.storage import Store
from popbandits_experiments.paper.procgen.methods import TUNED
from popbandits_experiments.paper.procgen.repeats import repeats
from popbandits_experiments.paper.procgen.tables import trials

Interval = tuple[float | None, int | None, float]
"""A mean return, or none if the interval failed; the parent, NEW, or none if it is the member itself; and lr."""
NEW = -1
"""In place of a parent: it began anew."""


def record(directory: Path, intervals: Sequence[Interval], seed: int = 0, **settings: Any) -> None:
    """A population of two, of which member 0 had these intervals; member 1 never trained with lr 0.5."""
    about = {
        "size": 2,
        "rounds": len(intervals),
        "seed": seed,
        "mode": "max",
        "agent": {
            "make": "popbandits_experiments.paper.procgen.task:Task",
            "settings": SETTINGS | {"game": "bigfish"} | settings,
        },
        "method": {"make": TUNED["pbt"].explorer, "settings": {}},
    }
    observations = []
    for round_, (first, parent, lr) in enumerate(intervals):
        for member, value, from_, rate in ((0, first, parent, lr), (1, 9.0 + seed + lr, None, 0.9)):
            told: dict[str, Any] = {"score": float("nan"), "status": "failed"}
            if value is not None:
                told = {"score": value, "metrics": {"training_return": value, "episodes": 10 * round_ + 10}}
            source = None if round_ == 0 or from_ == NEW else (member if from_ is None else from_, round_ - 1)
            observations.append(Observation(member, round_, {"lr": rate}, source, score_before=0.0, **told))
    directory.mkdir(parents=True)
    with Store.create(directory, Space({"lr": (0.1, 1.0)}), about) as store:
        store.write(observations=observations)


def found(folder: Path) -> list[tuple[int, int]]:
    """Member 0's intervals of both runs, and how many are equal, of each pair of runs."""
    return [(pair.both, pair.equal) for pair in repeats(trials([folder])) if pair.one.member == 0]


FIRST = [(1.0, None, 0.5), (2.0, None, 0.5), (3.0, None, 0.5)]


@pytest.mark.parametrize(
    ("second", "both_and_equal"),
    [
        (FIRST, (3, 3)),
        (FIRST[:2], (2, 2)),
        ([(1.0, None, 0.5), (2.0, None, 0.5), (3.0000001, None, 0.5)], (3, 2)),
        ([(1.1, None, 0.5), (2.1, None, 0.5), (3.1, None, 0.5)], (3, 0)),
        ([(1.0, None, 0.5), (2.0, 1, 0.5), (3.0, None, 0.5)], (1, 1)),  # It took the other member's weights.
        ([(1.0, None, 0.5), (2.0, NEW, 0.5), (3.0, None, 0.5)], (1, 1)),
        ([(1.0, None, 0.5), (2.0, None, 0.4), (3.0, None, 0.5)], (1, 1)),  # It went on with another value.
        ([(1.0, None, 0.5), (None, None, 0.5), (3.0, None, 0.5)], (1, 1)),  # It failed.
    ],
)
def test_intervals_are_compared_up_to_the_first_copy_change_or_failure(
    second: list[Interval], both_and_equal: tuple[int, int], tmp_path: Path
) -> None:
    record(tmp_path / "bigfish/pbt/0", FIRST)
    record(tmp_path / "bigfish/pbt/1", second)
    assert found(tmp_path) == [both_and_equal]


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"game": "leaper"}, {"levels": "replay"}, {"precision": "bfloat16"}, {"algorithm": "ppo"}]
)
def test_agents_of_other_seeds_and_settings_are_not_compared(other: dict[str, Any], tmp_path: Path) -> None:
    record(tmp_path / "bigfish/pbt/0", FIRST)
    record(tmp_path / "bigfish/pbt/1", FIRST, **other)
    assert found(tmp_path) == []


def test_agents_that_begin_with_other_values_are_not_compared(tmp_path: Path) -> None:
    record(tmp_path / "bigfish/pbt/0", FIRST)
    record(tmp_path / "bigfish/pbt/1", [(told, parent, 0.4) for told, parent, _ in FIRST])
    assert found(tmp_path) == []
