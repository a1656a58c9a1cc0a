"""Runs whose scores are noisy, with the skill behind each score."""

import numpy as np

from popbandits.explorers import PBT
from popbandits.history import History, Key
from popbandits.population import Population
from popbandits.selection import Selection
from popbandits.space import Space

SPACE = Space({"x": (0.0, 1.0), "z": (0.0, 1.0)})


def trained(
    selection: Selection, seed: int, noise: float, size: int = 6, rounds: int = 20, told: float | None = None
) -> tuple[History, dict[Key, float]]:
    """A run whose configurations differ in what they gain an interval, with noise on the scores; and true skills."""
    population = Population(SPACE, PBT(), size=size, rounds=rounds, seed=seed, selection=selection)
    skill: dict[Key, float] = {}
    while not population.done:
        for assignment in population.ask():
            rng = np.random.default_rng([seed, *assignment.key])
            x, z = assignment.config["x"], assignment.config["z"]
            before = 0.0 if assignment.parent is None else skill[assignment.parent]
            skill[assignment.key] = before + 0.3 - 1.5 * ((x - 0.7) ** 2 + (z - 0.3) ** 2) + 0.1 * rng.normal()
            population.tell(assignment, skill[assignment.key] + noise * rng.normal(), standard_error=told)
    return population.history, skill
