"""Tune by hand, with ask and tell, where no engine fits: `python examples/ask_tell.py`.

Each member walks down a narrow curved valley (Rosenbrock's function). Which step size is good depends on where it is,
so a schedule beats any fixed one. The loop is yours: run the assignments where and how you like, tell their scores.
"""

import math
import tempfile
from pathlib import Path
from typing import Any

from popbandits import History, PB2Fuse, Population, log

ROUNDS = 15
SPACE = {
    "step": log(1e-5, 1e-1),
    "momentum": (0.0, 0.95),
    "gradient": ["as it is", "of length one"],
}


def walk(x: float, y: float, config: dict[str, Any], steps: int = 100) -> tuple[float, float]:
    """Gradient descent on (1 - x)² + 100 (y - x²)²."""
    right = up = 0.0
    for _ in range(steps):
        along_x, along_y = -2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)
        length = math.hypot(along_x, along_y) if config["gradient"] == "of length one" else 1.0
        scale = config["step"] / max(length, 1e-12)
        right = config["momentum"] * right - scale * along_x
        up = config["momentum"] * up - scale * along_y
        x, y = x + right, y + up
        if max(abs(x), abs(y)) > 100:
            return math.nan, math.nan  # It left the map.
    return x, y


def height(x: float, y: float) -> float:
    """The function that is descended."""
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


def main() -> None:
    """Four members, one after another."""
    population = Population(SPACE, PB2Fuse(), size=4, rounds=ROUNDS, seed=0, mode="min")
    places: dict[tuple[int, int], tuple[float, float]] = {}  # Your checkpoints, by (member, round).
    while not population.done:
        for assignment in population.ask():  # They could run side by side; all are told before the next are asked for.
            start = (-1.5, 2.0) if assignment.parent is None else places[assignment.parent]
            place = walk(*start, assignment.config)
            places[assignment.member, assignment.round] = place
            population.tell(assignment, height(*place), steps=100)  # NaN says that it failed.

    best = population.best
    assert best is not None
    print(f"From {height(-1.5, 2.0):.0f} down to {best.score:.2g}, with these step sizes:")
    print(*(f"{config['step']:.1e}" for config in population.history.schedule()))

    with tempfile.TemporaryDirectory() as folder:
        population.history.save(Path(folder) / "run")
        stored = History.load(Path(folder) / "run")
        longer = Population(SPACE, PB2Fuse(), size=4, rounds=ROUNDS + 5, seed=0, mode="min", history=stored)
        print(f"Stored, loaded and made longer, it goes on with round {longer.ask()[0].round}.")


if __name__ == "__main__":
    main()
