"""A short seeded run of every explorer, and how one is written down and compared."""

import json
import math
from pathlib import Path
from typing import Any

import ConfigSpace as cs

from popbandits.explorers import Explorer
from popbandits.history import Config, History, Observation
from popbandits.methods import METHODS, Explore
from popbandits.population import Population

FOLDER = Path(__file__).parent
EXPLORERS: dict[str, type[Explorer]] = {
    type(made).__name__: type(made) for made in (method.make() for method in METHODS.values())
}
TOLERANCE = 1e-6


def space() -> cs.ConfigurationSpace:
    """Numbers, a level, two labels, and a child of each label of the first."""
    made = cs.ConfigurationSpace(
        {
            "lr": cs.Float("lr", (1e-4, 1e-1), log=True),
            "depth": (1, 6),
            "optimizer": ["sgd", "adam"],
            "momentum": (0.0, 1.0),
            "beta": (0.5, 1.0),
            "augment": ["crop", "flip", None],
        }
    )
    made.add(
        cs.EqualsCondition(made["momentum"], made["optimizer"], "sgd"),
        cs.EqualsCondition(made["beta"], made["optimizer"], "adam"),
    )
    return made


def gain(config: Config, round_: int) -> float:
    """What an interval adds to the score: the best learning rate falls as training goes on."""
    rate = math.log10(config["lr"]) + 2.0 + 0.1 * round_
    child = config["momentum"] - 0.9 if "momentum" in config else 2.0 * (config["beta"] - 0.8)
    labels = {"crop": 0.3, "flip": 0.1, None: 0.0}[config["augment"]]
    return 1.0 - 0.3 * rate**2 - 0.5 * child**2 + labels - 0.02 * (config["depth"] - 3) ** 2


def run(explorer: Explorer) -> History:
    """Four members, six rounds; one interval fails. A method that keeps a start has one, and so a control."""
    explore: Explore = "all" if type(explorer).__name__ in ("RandomSearch", "CoCaBO") else "replaced"
    start = "defaults" if explorer.keeps_start else None
    population = Population(space(), explorer, size=4, rounds=6, seed=2022, explore=explore, start=start)
    while not population.done:
        for assignment in population.ask():
            parent = None if assignment.parent is None else population.history.find(assignment.parent)
            before = 0.0 if parent is None else parent.score
            fails = assignment.key == (2, 3)
            population.tell(assignment, None if fails else before + gain(assignment.config, assignment.round))
    return population.history


def written(observation: Observation) -> dict[str, Any]:
    """What is compared: who did what, from where, and what came of it."""
    return {
        "member": observation.member,
        "round": observation.round,
        "parent": None if observation.parent is None else list(observation.parent),
        "config": observation.config,
        "score": None if observation.failed else observation.score,
        "fallback": observation.fallback,
    }


def recorded(name: str, folder: Path = FOLDER) -> list[dict[str, Any]]:
    """The history that is kept in a folder."""
    kept: list[dict[str, Any]] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return kept


def renew(name: str) -> None:
    """Keep the history that the code makes now."""
    lines = ",\n".join(json.dumps(written(observation)) for observation in run(EXPLORERS[name]()))
    (FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n", "utf-8")


def difference(kept: Any, made: Any, where: str = "history") -> str | None:
    """The first place where two histories differ; floats may by a relative TOLERANCE, all else is exact."""
    if isinstance(kept, float) and isinstance(made, float):
        if math.isclose(kept, made, rel_tol=TOLERANCE, abs_tol=1e-12):
            return None
    elif type(kept) is not type(made):
        pass
    elif isinstance(kept, dict) and kept.keys() == made.keys():
        return next((d for key in kept if (d := difference(kept[key], made[key], f"{where}[{key!r}]"))), None)
    elif isinstance(kept, list) and len(kept) == len(made):
        pairs = enumerate(zip(kept, made, strict=True))
        return next((d for i, (a, b) in pairs if (d := difference(a, b, f"{where}[{i}]"))), None)
    elif kept == made:
        return None
    return f"{where}: kept {kept!r}, made {made!r}"
