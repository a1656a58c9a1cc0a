"""Populations that decide in worker processes while the device trains others."""

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
from ConfigSpace import ConfigurationSpace

from popbandits.engines.spawning import end_with, spawning
from popbandits.history import Assignment, Key
from popbandits.population import Population
from popbandits.space import Space
from popbandits_experiments.ground.methods import METHODS, Variation
from popbandits_experiments.ground.records import TENTHS
from popbandits_experiments.paper.parallel import ONE_THREAD, worker_count

MEMBERS = 4
DEFAULTS = "defaults"
ALONE = "defaults/one"
"""Name of the defaults with one member's budget: the first member is the result, whatever the others do."""
ON_BOUND = 0.01
"""Distance from a bound, as a share of the range, within which a number counts as on the bound."""
LOW_LR = 0.1


@dataclass(frozen=True)
class Order:
    """Next interval of a member."""

    config: dict[str, Any]
    parent: Key | None
    """Member and round whose weights it starts from; None for a fresh start. Rounds count from 0."""


@dataclass
class Choices:
    """Counts of new configurations in the last third of a run."""

    made: int = 0
    on_bound: int = 0
    low_lr: int = 0


@dataclass(frozen=True)
class Spec:
    """Specification of a population."""

    method: str
    """A name of `ground/methods.py`, or DEFAULTS or ALONE, which neither tune nor copy members."""
    space: ConfigurationSpace
    rounds: int
    seed: int


@dataclass(frozen=True)
class Summary:
    """Result of a finished population."""

    handed_over: int | None
    """Member with the best last score; None if every member's last interval failed."""
    curve: list[float]
    """Best last score after each tenth of the budget; NaN while no member has one."""
    late: Choices


class Tuned:
    """A running population: it receives scores and returns the next orders of its members."""

    def __init__(self, spec: Spec):
        self.space, self.rounds = spec.space, spec.rounds
        self.candidates = 1 if spec.method == ALONE else MEMBERS
        self.round = 0
        self.scores: list[float] = []
        self.curve: list[float] = []
        self.late = Choices()
        self._encoding = Space(spec.space)
        self._configs: dict[tuple[int, int], dict[str, Any]] = {}
        self._asked: list[Assignment] = []
        self._population: Population | None = None
        if spec.method not in (DEFAULTS, ALONE):
            method = METHODS[spec.method]
            self._population = Population(
                spec.space,
                method.make(),
                MEMBERS,
                spec.rounds,
                spec.seed,
                explore=method.explore,
                selection=method.make_selection(),
                start=method.start if isinstance(method, Variation) else None,
            )

    def advance(self, scores: Sequence[float] | None) -> list[Order] | None:
        """Take the scores of a round, None before the first; return the next round's orders, None after the last."""
        if scores is not None:
            self._take(scores)
        if self.round == self.rounds:
            return None
        self.round += 1
        if self._population is None:
            config = dict(self.space.get_default_configuration())
            return [Order(config, None if self.round == 1 else (m, self.round - 2)) for m in range(MEMBERS)]
        self._asked = sorted(self._population.ask(), key=lambda assignment: assignment.member)
        for assignment in self._asked:
            self._count(assignment)
        return [Order(a.config, a.parent) for a in self._asked]

    @property
    def handed_over(self) -> int | None:
        """Return the member with the best last score; None if every member's last interval failed."""
        scores = self.scores[: self.candidates]
        return None if np.isnan(scores).all() else int(np.nanargmax(scores))

    def _take(self, scores: Sequence[float]) -> None:
        self.scores = list(scores)
        if self._population is not None:
            for assignment in self._asked:
                self._population.tell(assignment, scores[assignment.member])
        while len(self.curve) < TENTHS and self.round * TENTHS >= (len(self.curve) + 1) * self.rounds:
            self.curve.append(math.nan if self.handed_over is None else self.scores[self.handed_over])

    def _count(self, assignment: Assignment) -> None:
        """Count a late choice: whether it is new, on a bound, or has a low learning rate."""
        config = assignment.config
        self._configs[assignment.key] = config
        before = self._configs.get(assignment.parent) if assignment.parent else None
        if before == config or 3 * assignment.round < 2 * self.rounds:
            return
        unit = dict(zip((p.name for p in self._encoding.numerical), self._encoding.encode([config]).x[0], strict=True))
        # The bounds of integers and ordinals are ordinary values.
        numbers = [unit[p.name] for p in self._encoding.numerical if p.levels is None]
        self.late.made += 1
        self.late.on_bound += any(min(x, 1 - x) <= ON_BOUND for x in numbers if not math.isnan(x))
        self.late.low_lr += bool(unit["lr"] <= LOW_LR)


_TUNED: dict[int, Tuned] = {}  # in a worker: populations by number


Job = tuple[int, Spec | None, Sequence[float] | None]
"""A population's number, its specification if it is new, and its scores."""
Answers = tuple[list[tuple[int, list[Order] | None]], float]
"""Orders by population, and the seconds they took."""


def _advance(jobs: list[Job]) -> Answers:
    """Advance populations in a worker; create new ones, and keep finished ones until they are fetched."""
    start, answers = time.perf_counter(), []
    for number, new, scores in jobs:
        if new is not None:
            _TUNED[number] = Tuned(new)
        answers.append((number, _TUNED[number].advance(scores)))
    return answers, time.perf_counter() - start


def _fetch(numbers: list[int]) -> list[tuple[int, Summary]]:
    done = [(number, _TUNED.pop(number)) for number in numbers]
    return [(number, Summary(tuned.handed_over, tuned.curve, tuned.late)) for number, tuned in done]


class Deciders:
    """Worker processes; each population stays with one of them."""

    def __init__(self, workers: int | None = None):
        context = get_context("spawn")
        listen, self._line = context.Pipe(duplex=False)
        with listen, spawning(ONE_THREAD):
            self._pools = [ProcessPoolExecutor(1, context, end_with, (listen,)) for _ in range(worker_count(workers))]
            for future in [pool.submit(_advance, []) for pool in self._pools]:
                future.result()  # Spawn now, in this environment.
        self._next = 0

    def add(self, count: int) -> range:
        """Assign numbers to new populations."""
        self._next += count
        return range(self._next - count, self._next)

    def __len__(self) -> int:
        return len(self._pools)

    def advance(self, jobs: Sequence[Job]) -> list["Future[Answers]"]:
        """Let populations take their scores and decide, each in its own worker, without waiting."""
        shares: list[list[Job]] = [[] for _ in self._pools]
        for job in jobs:
            shares[job[0] % len(shares)].append(job)
        return [pool.submit(_advance, share) for pool, share in zip(self._pools, shares, strict=True) if share]

    def fetch(self, numbers: Sequence[int]) -> dict[int, Summary]:
        """Return the results of finished populations, and forget them."""
        found: dict[int, Summary] = {}
        for index, pool in enumerate(self._pools):
            share = [number for number in numbers if number % len(self._pools) == index]
            found.update(pool.submit(_fetch, share).result())
        return found

    def close(self) -> None:
        """End the workers."""
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)
        self._line.close()
