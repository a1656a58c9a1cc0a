"""A seeded run of every explorer is what it was: a change of decisions is noticed, and made on purpose.

Renew them with `python -m tests.golden.renew`, and look at what changed.
"""

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from popbandits.history import History
from tests.golden.runs import EXPLORERS, FOLDER, difference, recorded, run, space, written


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_seeded_run_is_what_it_was(name: str) -> None:
    change = difference(recorded(name), [written(observation) for observation in run(EXPLORERS[name]())])
    assert change is None, f"{change}; if it is meant: python -m tests.golden.renew {name}"


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_golden_history_survives_storage(name: str, tmp_path: Path) -> None:
    history = run(EXPLORERS[name]())
    history.save(tmp_path)
    assert History.load(tmp_path) == history


def test_the_golden_histories_show_what_they_should() -> None:
    for name, explorer in EXPLORERS.items():
        kept = recorded(name)
        assert [(o["member"], o["round"]) for o in kept] == [(m, r) for r in range(6) for m in range(4)]
        assert [o["score"] for o in kept].count(None) == 1
        assert any(o["parent"] and o["parent"][0] != o["member"] for o in kept) == explorer.exploits
    models = [name for name in EXPLORERS if name not in ("RandomSearch", "PBT")]
    for name in models:
        explored = [o for o in recorded(name) if o["round"] > 3 and o["fallback"] is None]
        assert explored, f"{name}: a model was used"


def test_every_golden_file_belongs_to_an_explorer() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == EXPLORERS.keys()


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("config", "lr"), lambda lr: lr * (1 + 1e-5), r"history\[5\]\['config'\]\['lr'\]: kept"),
        (("config", "depth"), lambda depth: depth + 1, r"history\[5\]\['config'\]\['depth'\]"),
        (("config", "depth"), float, r"history\[5\]\['config'\]\['depth'\]"),
        (("config", "augment"), lambda _: "rotate", r"history\[5\]\['config'\]\['augment'\]"),
        (("config",), lambda config: config | {"new": 1}, r"history\[5\]\['config'\]: kept"),
        (("parent",), lambda _: [9, 9], r"history\[5\]\['parent'\]"),
        (("score",), lambda _: None, r"history\[5\]\['score'\]"),
    ],
)
def test_a_difference_is_found_and_named(place: tuple[str, ...], value: Any, said: str) -> None:
    kept = recorded("PBT")
    made: Any = copy.deepcopy(kept)
    inner = made[5]
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value(inner[place[-1]])
    assert re.match(said, difference(kept, made) or "the same")


def test_rounding_is_no_difference() -> None:
    kept = recorded("PBT")
    made = copy.deepcopy(kept)
    made[5]["score"] *= 1 + 1e-9
    assert difference(kept, made) is None
    assert difference(kept, made[:-1]) is not None


def test_the_space_of_the_golden_runs_is_mixed_and_conditional() -> None:
    kinds = {type(hyperparameter).__name__ for hyperparameter in space().values()}
    assert kinds == {"UniformFloatHyperparameter", "UniformIntegerHyperparameter", "CategoricalHyperparameter"}
    assert len(space().conditional_hyperparameters) == 2
