"""Populations that decide in worker processes while the device trains others."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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
from popbandits_experiments.ground.methods import Variation, find
from popbandits_experiments.ground.records import TENTHS
from popbandits_experiments.ground.rivals.registry import Rival
from popbandits_experiments.ground.rivals.trials import Trial
from popbandits_experiments.paper.parallel import ONE_THREAD, worker_count

MEMBERS = 4
"""Members of a population, and slots of a rival, unless another number is asked for."""
DEFAULTS = "defaults"
ALONE = "defaults/one"
"""Name of the defaults with one member's budget: the first member is the result, whatever the others do."""
ON_BOUND = 0.01
"""Distance from a bound, as a share of the range, within which a number counts as on the bound."""
LOW_LR = 0.1

Metrics = Mapping[int, Mapping[str, Any]]
"""What members report besides their scores, by member and name."""


@dataclass(frozen=True)
class Order:
    """Next interval of a member, or of a rival's slot."""

    config: dict[str, Any]
    parent: Key | None
    """Member and round whose weights it starts from; None for a fresh start. Rounds count from 0."""
    trial: int | None = None
    """Number of a rival's trial; None for a member of a population."""
    age: int = 0
    """Intervals that a rival's trial has trained before."""


@dataclass(frozen=True)
class Answer:
    """Decisions after a round."""

    orders: list[Order | None] | None
    """Order of each member, None for one that stays idle; None altogether after the last round."""
    needed: frozenset[Key]
    """Member and round of the states that may still be asked for."""


@dataclass
class Choices:
    """Counts of new configurations in the last third of a run."""

    made: int = 0
    on_bound: int = 0
    low_lr: int = 0

    def count(self, config: dict[str, Any], space: Space) -> None:
        """Count a choice: whether it is on a bound, and whether it has a low learning rate."""
        unit = dict(zip((p.name for p in space.numerical), space.encode([config]).x[0], strict=True))
        # The bounds of integers and ordinals are ordinary values.
        numbers = [unit[p.name] for p in space.numerical if p.levels is None]
        self.made += 1
        self.on_bound += any(min(x, 1 - x) <= ON_BOUND for x in numbers if not math.isnan(x))
        self.low_lr += bool(unit["lr"] <= LOW_LR)


@dataclass(frozen=True)
class Spec:
    """Specification of a population, or of a rival with as many slots."""

    method: str
    """A name of `ground/methods.py`, or DEFAULTS or ALONE, which neither tune nor copy members."""
    space: ConfigurationSpace
    rounds: int
    seed: int
    members: int = MEMBERS


@dataclass(frozen=True)
class Summary:
    """Result of a finished run. States are named by member and round; None if every candidate failed."""

    final: Key | None
    """State with the best last score."""
    best: Key | None
    """State with the best score ever: what `tune` hands over."""
    curve: list[float]
    """Best last score after each tenth of the budget; NaN while no member has one."""
    late: Choices


class Run(ABC):
    """A run that receives scores and returns the next orders of its members."""

    def __init__(self, spec: Spec):
        self.spec = spec
        self.curve: list[float] = []
        self.late = Choices()
        self.best: tuple[float, Key] | None = None
        """Best score so far, and its state; the last one wins a tie, as in `History.best`."""
        self.metrics: Metrics = {}
        """What members reported besides their scores in the last round, by member."""

    @abstractmethod
    def advance(self, scores: Sequence[float] | None) -> Sequence[Order | None] | None:
        """Take the scores of a round, None before the first; return the next round's orders, None after the last."""

    @property
    @abstractmethod
    def final(self) -> Key | None:
        """State with the best last score; None if there is none."""

    @property
    @abstractmethod
    def needed(self) -> frozenset[Key]:
        """States that may still be asked for, besides the final and the best one."""

    @property
    def summary(self) -> Summary:
        """Result of the finished run."""
        return Summary(self.final, None if self.best is None else self.best[1], self.curve, self.late)

    def answer(self, scores: Sequence[float] | None, metrics: Metrics | None = None) -> Answer:
        """Advance, and say which states may still be asked for."""
        self.metrics = metrics or {}
        orders = self.advance(scores)
        ends = {key for key in (self.final, self.best and self.best[1]) if key}
        return Answer(None if orders is None else list(orders), self.needed | ends)

    def _note(self, score: float, key: Key) -> None:
        """Note the best score."""
        if math.isfinite(score) and (self.best is None or score >= self.best[0]):
            self.best = score, key

    def _extend_curve(self, spent: int, budget: int, score: float) -> None:
        """Add a score to the curve for each tenth of the budget that is spent."""
        while len(self.curve) < TENTHS and spent * TENTHS >= (len(self.curve) + 1) * budget:
            self.curve.append(score)


class Tuned(Run):
    """A population, or members that nothing tunes."""

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.space, self.rounds, self.members = spec.space, spec.rounds, spec.members
        self.candidates = 1 if spec.method == ALONE else self.members
        self.round = 0
        self.scores: list[float] = []
        self._encoding = Space(spec.space)
        self._configs: dict[tuple[int, int], dict[str, Any]] = {}
        self._asked: list[Assignment] = []
        self._completed: dict[int, Key] = {}
        """Last completed state of each member."""
        self._population: Population | None = None
        if spec.method not in (DEFAULTS, ALONE):
            method = find(spec.method)
            assert not isinstance(method, Rival)
            varied = method if isinstance(method, Variation) else None
            start = varied.start_in(spec.space, self.members) if varied else None
            self._population = Population(
                spec.space,
                method.make(),
                self.members,
                spec.rounds,
                spec.seed,
                explore=method.explore,
                selection=method.make_selection(),
                start=start or "random",
                control=varied is not None and varied.control,
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
            return [Order(config, None if self.round == 1 else (m, self.round - 2)) for m in range(self.members)]
        self._asked = sorted(self._population.ask(), key=lambda assignment: assignment.member)
        for assignment in self._asked:
            self._count(assignment)
        return [Order(a.config, a.parent) for a in self._asked]

    @property
    def handed_over(self) -> int | None:
        """Return the member with the best last score; None if every member's last interval failed."""
        scores = self.scores[: self.candidates]
        return None if np.isnan(scores).all() else int(np.nanargmax(scores))

    @property
    def final(self) -> Key | None:
        """State with the best last score."""
        return None if self.handed_over is None else self._completed.get(self.handed_over)

    @property
    def needed(self) -> frozenset[Key]:
        """Last completed state of every member; a population returns to these, or to the best, after failures."""
        return frozenset(self._completed.values())

    def _take(self, scores: Sequence[float]) -> None:
        self.scores = list(scores)
        for member, score in enumerate(scores):
            if math.isfinite(score):
                self._completed[member] = member, self.round - 1
            if member < self.candidates:
                self._note(score, (member, self.round - 1))
        if self._population is not None:
            for assignment in self._asked:
                member = assignment.member
                self._population.tell(assignment, scores[member], metrics=self.metrics.get(member))
        last = math.nan if self.handed_over is None else self.scores[self.handed_over]
        self._extend_curve(self.round, self.rounds, last)

    def _count(self, assignment: Assignment) -> None:
        """Count a late choice if it is new."""
        config = assignment.config
        self._configs[assignment.key] = config
        before = self._configs.get(assignment.parent) if assignment.parent else None
        if before != config and 3 * assignment.round >= 2 * self.rounds:
            self.late.count(config, self._encoding)


class Scheduled(Run):
    """A rival: its trials are paused and resumed on the slots of a population."""

    def __init__(self, spec: Spec):
        super().__init__(spec)
        rival = find(spec.method)
        assert isinstance(rival, Rival)
        self.scheduler = rival.make(spec.space, spec.members, spec.rounds, spec.seed)
        self.round = 0
        self._encoding = Space(spec.space)
        self._slots: list[Trial | None] = [None] * spec.members
        self._states: dict[Trial, Key] = {}
        """Where each trial last trained."""
        self._held: set[Key] = set()
        """States that have not been forgotten."""

    def advance(self, scores: Sequence[float] | None) -> list[Order | None] | None:
        """Take the scores of a round, None before the first; return the next round's orders, None after the last."""
        scheduler = self.scheduler
        if scores is not None:
            self._take(scores)
        spent = scheduler.spent
        chosen = scheduler.next_round()
        if not chosen:
            self._extend_curve(scheduler.budget, scheduler.budget, self._last)
            return None
        for trial in chosen:
            if trial.age == 0 and 3 * spent >= 2 * scheduler.budget:
                self.late.count(trial.config, self._encoding)
        self.round += 1
        self._slots = self._place(chosen)
        return [None if trial is None else self._order(trial) for trial in self._slots]

    def _order(self, trial: Trial) -> Order:
        return Order(self.scheduler.config_of(trial), self._states.get(trial), trial.number, trial.age)

    @property
    def final(self) -> Key | None:
        """State of the incumbent; the best one ever if those that trained longer failed and its own is forgotten."""
        incumbent = self.scheduler.incumbent
        if incumbent is None:
            return None
        key = self._states[incumbent]
        return key if key in self._held or self.best is None else self.best[1]

    def answer(self, scores: Sequence[float] | None, metrics: Metrics | None = None) -> Answer:
        """Advance, and say which states may still be asked for."""
        answer = super().answer(scores, metrics)
        self._held = set(answer.needed)
        return answer

    @property
    def needed(self) -> frozenset[Key]:
        """States of the trials that may go on."""
        return frozenset(key for trial, key in self._states.items() if self.scheduler.may_go_on(trial))

    @property
    def _last(self) -> float:
        incumbent = self.scheduler.incumbent
        return math.nan if incumbent is None else incumbent.last

    def _take(self, scores: Sequence[float]) -> None:
        told: dict[Trial, float] = {}
        for slot, (trial, score) in enumerate(zip(self._slots, scores, strict=True)):
            if trial is not None:
                told[trial] = score
                self._states[trial] = slot, self.round - 1
                self._held.add(self._states[trial])
                self._note(score, self._states[trial])
        self.scheduler.tell([told[trial] for trial in self.scheduler.training])
        self._extend_curve(self.scheduler.spent, self.scheduler.budget, self._last)

    def _place(self, chosen: Sequence[Trial]) -> list[Trial | None]:
        """Place trials on slots: one that goes on stays where it is, the others fill up from the first slot."""
        slots = [trial if trial in chosen else None for trial in self._slots]
        others = [trial for trial in chosen if trial not in slots]
        return [trial or (others.pop(0) if others else None) for trial in slots]


def make_run(spec: Spec) -> Run:
    """Make a population, or a rival."""
    untuned = spec.method in (DEFAULTS, ALONE)
    return Scheduled(spec) if not untuned and isinstance(find(spec.method), Rival) else Tuned(spec)


_RUNS: dict[int, Run] = {}  # in a worker: runs by number


Job = tuple[int, Spec | None, Sequence[float] | None, Metrics | None]
"""A population's number, its specification if it is new, its scores, and what else its members reported."""
Answers = tuple[list[tuple[int, Answer]], float]
"""Decisions by population, and the seconds they took."""


def _advance(jobs: list[Job]) -> Answers:
    """Advance populations in a worker; create new ones, and keep finished ones until they are fetched."""
    start, answers = time.perf_counter(), []
    for number, new, scores, metrics in jobs:
        if new is not None:
            _RUNS[number] = make_run(new)
        answers.append((number, _RUNS[number].answer(scores, metrics)))
    return answers, time.perf_counter() - start


def _fetch(numbers: list[int]) -> list[tuple[int, Summary]]:
    return [(number, _RUNS.pop(number).summary) for number in numbers]


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
