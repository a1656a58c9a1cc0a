"""Play an explorer on a problem through ask/tell, and the perfect explorer under the same replacement rule.

All randomness of a problem is keyed by (seed, member, round), so that it does not depend on the method.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from popbandits.population import Population
from popbandits.selection.truncation import replaced_count
from popbandits_experiments.simulated.landscapes import Problem, State
from popbandits_experiments.simulated.problems import make

VARIANTS: dict[str, dict[str, Any]] = {"all": {"explore": "all"}, "half": {"quantile": 0.5}}
PERFECT = "perfect"

Key = tuple[int, int]


class Job(Protocol):
    """An assignment returned by `ask`."""

    @property
    def member(self) -> int: ...
    @property
    def round(self) -> int: ...
    @property
    def config(self) -> dict[str, Any]: ...
    @property
    def parent(self) -> Key | None: ...


class AskTell(Protocol):
    @property
    def done(self) -> bool: ...
    def ask(self) -> Sequence[Any]: ...
    def tell(self, assignment: Any, score: float) -> Any: ...


@dataclass(frozen=True)
class RunResult:
    """Result of one run, in units of true gain."""

    problem: str
    method: str
    seed: int
    size: int
    rounds: int
    explore: str
    quantile: float
    regret: float
    """Mean over members: of the sum over their rounds or, if episodic, of the final shortfall."""
    best: float
    """The same for the lineage that ends with the highest reported score, which the user gets."""
    final: float
    """Mean over members of the sum of gains along their lineage."""
    seconds: float
    """Seconds spent deciding (in ask and tell), not in the problem."""
    fallbacks: int


@dataclass(frozen=True)
class Interval:
    """State and gains of one member's round."""

    state: State
    score: float
    regret: float
    lineage_gain: float
    lineage_regret: float


def play(problem: Problem, population: AskTell, seed: int, played: dict[Key, Interval]) -> float:
    """Train every assignment until done, filling `played` by (member, round); return the seconds spent deciding."""
    seconds = 0.0
    while not population.done:
        began = time.perf_counter()
        jobs = population.ask()
        seconds += time.perf_counter() - began
        if not jobs:
            raise RuntimeError("ask() gave nothing to train although the run is not done")
        for job in jobs:
            before = played[job.parent] if job.parent is not None else _untrained(problem, seed, job.member)
            interval = played[job.member, job.round] = _train(problem, before, job, seed)
            began = time.perf_counter()
            population.tell(job, interval.score)
            seconds += time.perf_counter() - began
    return seconds


def _untrained(problem: Problem, seed: int, member: int) -> Interval:
    state = problem.start(np.random.default_rng([seed, member]))
    return Interval(state, score=0.0, regret=0.0, lineage_gain=0.0, lineage_regret=0.0)


def _train(problem: Problem, before: Interval, job: Job, seed: int) -> Interval:
    rng = np.random.default_rng([seed, job.member, job.round])
    best = problem.best_gain(before.state, job.round)
    state, score, gain = problem.step(before.state, job.config, job.round, rng)
    regret = best - gain
    return Interval(state, score, regret, before.lineage_gain + gain, before.lineage_regret + regret)


def summary(problem: Problem, played: dict[Key, Interval], size: int, rounds: int) -> dict[str, Any]:
    """Compute regret, best and final of a finished run (see `RunResult`)."""
    last = [played[member, rounds - 1] for member in range(size)]
    winner = max(last, key=lambda interval: interval.score)
    final = float(np.mean([interval.lineage_gain for interval in last]))
    if problem.episodic:
        total = problem.best_total()
        return {"regret": total - final, "best": total - winner.lineage_gain, "final": final}
    regret = sum(interval.regret for interval in played.values()) / size
    return {"regret": regret, "best": winner.lineage_regret, "final": final}


def run(
    problem: str,
    method: str,
    *,
    size: int = 4,
    rounds: int = 50,
    seed: int = 0,
    explore: str = "replaced",
    quantile: float = 0.25,
) -> RunResult:
    """Play one run; `method` is `perfect` or a name of METHODS, optionally with a variant: "pb2-fuse/half"."""
    name, _, variant = method.partition("/")
    options: dict[str, Any] = {"explore": explore, "quantile": quantile}
    options |= VARIANTS[variant] if variant else {}
    drawn = make(problem, seed, rounds)
    played: dict[Key, Interval] = {}
    population: Any
    if name == PERFECT:
        population = Perfect(drawn, played, size=size, rounds=rounds, seed=seed, **options)
    else:
        population = Population(drawn.space(), name, size=size, rounds=rounds, seed=seed, **options)
    seconds = play(drawn, population, seed, played)
    fallbacks = sum(observation.fallback is not None for observation in getattr(population, "history", ()))
    return RunResult(
        problem,
        method,
        seed,
        size,
        rounds,
        **options,
        **summary(drawn, played, size, rounds),
        seconds=seconds,
        fallbacks=fallbacks,
    )


@dataclass(frozen=True)
class PerfectJob:
    member: int
    round: int
    config: dict[str, Any]
    parent: Key | None


@dataclass
class Perfect:
    """An explorer that knows the best configuration of the next round, but may give it to replaced members only.

    The first round is a uniform sample; then the lowest quarter (at least one) load the weights of one of the
    top quarter, ties broken at random. Where the optimum is fixed, no method does better on average.
    Where it drifts, a method that plans for all rounds of a configuration could.
    """

    problem: Problem
    played: dict[Key, Interval]
    size: int
    rounds: int
    seed: int
    explore: str = "replaced"
    quantile: float = 0.25
    round: int = 0
    jobs: list[PerfectJob] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        space = self.problem.space()
        space.seed(self.seed)
        first = [dict(space.sample_configuration()) for _ in range(self.size)]
        self.jobs = [PerfectJob(member, 0, config, None) for member, config in enumerate(first)]
        self.rng = np.random.default_rng(self.seed)

    @property
    def done(self) -> bool:
        return self.round == self.rounds

    def ask(self) -> list[PerfectJob]:
        return self.jobs

    def tell(self, assignment: PerfectJob, score: float) -> None:
        self.scores[assignment.member] = score
        if len(self.scores) == self.size:
            self.round += 1
            self.jobs = self._next() if not self.done else []
            self.scores = {}

    def _next(self) -> list[PerfectJob]:
        tie = self.rng.random(self.size)
        ranked = sorted(self.scores, key=lambda member: (self.scores[member], tie[member]))
        k = replaced_count(self.size, self.quantile)
        parents = dict(zip(ranked[:k], self.rng.choice(ranked[-k:], k).tolist(), strict=True))
        jobs = []
        for job in self.jobs:
            parent = (parents.get(job.member, job.member), self.round - 1)
            config = job.config
            if job.member in parents or self.explore == "all":
                config = self.problem.best_config(self.played[parent].state, self.round)
            jobs.append(PerfectJob(job.member, self.round, config, parent))
        return jobs
