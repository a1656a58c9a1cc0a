"""The paper's synthetic experiment: a label and a number that must be chosen together.

    h in {sin, cos}, x in [0, pi/2]; a round gains h(x), and its regret is 1 - h(x)

A member's score is the sum of the gains along its lineage: after an exploit it continues from its parent's score.

| symbol | meaning | shape |
|---|---|---|
| r | regret of each member in each round | (rounds, size) |
| mean | cumulative regret of the mean over members: the running sum of r's mean over members | (rounds,) |
| best | cumulative regret along the lineage that ends with the best score, which a user would keep | (rounds,) |
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from popbandits.basics.typing import FloatArray
from popbandits.errors import ArgumentError
from popbandits.explorers import RandomSearch
from popbandits.history import Config, History
from popbandits.methods import Explore
from popbandits.population import Population
from popbandits.selection.truncation import replaced_count
from popbandits_experiments.methods import ALL_METHODS as METHODS
from popbandits_experiments.paper.compared import COMPARED
from popbandits_experiments.paper.parallel import in_processes, worker_count
from popbandits_experiments.paper.results import Floor, Results, Run, Start, provenance

SPACE = {"h": ["sin", "cos"], "x": (0.0, math.pi / 2)}
GAINS = {"sin": math.sin, "cos": math.cos}

Job = Callable[[], Run | Floor]


def gain(config: Config) -> float:
    """Return h(x).

    >>> gain({"h": "cos", "x": 0.0})
    1.0
    """
    return GAINS[config["h"]](config["x"])


def run(method: str, size: int, seed: int, rounds: int = 50) -> Run:
    """Run one population on the task; all methods but those with a prior start from the seed's first configurations."""
    began = time.perf_counter()
    population = Population(SPACE, method, size=size, rounds=rounds, seed=seed, initial_score=0.0)
    totals: dict[tuple[int, int], float] = {}  # contents of the checkpoint of (member, round)
    while not population.done:
        for assignment in population.ask():
            before = 0.0 if assignment.parent is None else totals[assignment.parent]
            totals[assignment.key] = before + gain(assignment.config)
            population.tell(assignment, totals[assignment.key])
    seconds = time.perf_counter() - began
    fallbacks = sum(observation.fallback is not None for observation in population.history)
    mean, best = regrets(population.history, size)
    return Run(method, size, seed, tuple(mean.tolist()), tuple(best.tolist()), fallbacks, seconds)


def regrets(history: History, size: int) -> tuple[FloatArray, FloatArray]:
    """Return the curves `mean` and `best` (see above) of a finished run; the lowest member wins a tie."""
    r = np.array([1 - gain(observation.config) for observation in history]).reshape(-1, size)
    last = sorted((history[len(history) - 1 - i] for i in range(size)), key=lambda o: o.member)
    winner = max(last, key=lambda observation: observation.score)
    line = [1 - gain(observation.config) for observation in history.lineage(winner)]
    return np.cumsum(r.mean(axis=1)), np.cumsum(line)


def floor(
    size: int,
    rounds: int,
    explore: Explore = "replaced",
    start: Start = "any",
    seeds: int = 20,
    draws: int = 10_000,
    quantile: float = 0.25,
) -> Floor:
    """Compute the regret that no explorer can avoid: of the first round, then of all members not replaced yet.

    It is the average of `draws` simulations that start from uniform draws, or equally often from those of `seeds` runs.

    >>> [round(floor(size, 50).mean[-1], 2) for size in (4, 8, 12)]
    [0.65, 0.62, 0.61]
    """
    rng = np.random.default_rng([size, draws])
    if start == "same":
        r = np.repeat([first_regrets(size, seed) for seed in range(seeds)], -(-draws // seeds), axis=0)
    else:  # sin and cos mirror each other, so the label does not matter
        r = 1 - np.cos(rng.uniform(0, math.pi / 2, (draws, size)))
    n = len(r)
    total, mean, lines = np.zeros((n, size)), np.zeros((n, rounds)), np.zeros((n, size, rounds))
    count, each = replaced_count(size, quantile), np.arange(n)[:, None]
    for t in range(rounds):
        if t:
            order = np.lexsort((rng.random((n, size)), total), axis=1)  # least regret first; ties at random
            weak, top = order[:, size - count :], order[:, :count]
            strong = np.take_along_axis(top, rng.integers(count, size=(n, count)), axis=1)
            total[each, weak] = total[each, strong]
            lines[each, weak] = lines[each, strong]
            r[each, weak if explore == "replaced" else order] = 0.0
            if not r.any():  # nor will there be in later rounds
                break
        total += r
        mean[:, t], lines[:, :, t] = r.mean(axis=1), r
    best = lines[np.arange(n), total.argmin(axis=1)]
    curves = (tuple(np.cumsum(rows.mean(axis=0)).tolist()) for rows in (mean, best))
    return Floor(explore, start, size, *curves)


def first_regrets(size: int, seed: int) -> list[float]:
    """Return the regrets of the first round, which depend on the seed only, not on the method."""
    first = Population(SPACE, RandomSearch(), size=size, rounds=1, seed=seed).ask()
    return [1 - gain(assignment.config) for assignment in first]


@dataclass(frozen=True)
class Synthetic:
    """The experiment: every method x size x seed, seeds counted from 0.

    >>> experiment = Synthetic(methods=("random", "pbt"), sizes=(4,), seeds=5)
    >>> len(experiment.jobs())  # ten runs and two floors; `experiment.run()` does them
    12
    """

    methods: tuple[str, ...] = COMPARED
    sizes: tuple[int, ...] = (4, 8, 12)
    seeds: int = 20
    rounds: int = 50
    floor_draws: int = 10_000

    def __post_init__(self) -> None:
        for name in self.methods:
            if name not in METHODS:
                raise ArgumentError(f"methods: unknown name {name!r}; choose from {', '.join(METHODS)}")
        counts = {"seeds": self.seeds, "rounds": self.rounds, "floor_draws": self.floor_draws}
        for name, value, least in [
            *(("sizes", size, 2) for size in self.sizes),
            *((name, value, 1) for name, value in counts.items()),
        ]:
            if value < least:
                raise ArgumentError(f"{name} must be at least {least}, got {value}")
        for name, several in (("methods", self.methods), ("sizes", self.sizes)):
            if not several or len(set(several)) < len(several):
                given = " ".join(map(str, several)) or "none"
                raise ArgumentError(f"{name} must be one or more, without repeats, got {given}")

    def jobs(self) -> list[Job]:
        """Return what is to be computed: short and long jobs are mixed evenly, so that the pace is even."""
        explores = {METHODS[name].explore for name in self.methods}
        kinds: list[tuple[Explore, Start]] = [("replaced", "same"), ("replaced", "any"), ("all", "same")]
        floors = [
            partial(floor, size, self.rounds, explore, start, self.seeds, self.floor_draws)
            for size in self.sizes
            for explore, start in kinds
            if explore in explores
        ]
        sizes = sorted(self.sizes, reverse=True)
        runs = product(range(self.seeds), sizes, self.methods)
        return [*floors, *(partial(run, name, size, seed, self.rounds) for seed, size, name in runs)]

    def run(self, workers: int | None = None, done: Callable[[], Any] = lambda: None) -> Results:
        """Run all jobs over all cores; `done` is called after each of them."""
        began = time.perf_counter()
        outcomes = in_processes(self.jobs(), workers, lambda *_: done())
        origin = provenance(time.perf_counter() - began, worker_count(workers))
        runs = [outcome for outcome in outcomes if isinstance(outcome, Run)]
        runs.sort(key=lambda r: (self.methods.index(r.method), self.sizes.index(r.size), r.seed))
        floors = [outcome for outcome in outcomes if isinstance(outcome, Floor)]
        return Results(tuple(runs), tuple(floors), asdict(self), origin)
