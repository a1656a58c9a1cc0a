"""Many populations at once on one device: while one batch trains, the populations of another decide."""

import math
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch

from popbandits.engines.spawning import cores
from popbandits.errors import ArgumentError
from popbandits_experiments.ground.deciding import ALONE, DEFAULTS, MEMBERS, Deciders, Metrics, Order, Spec
from popbandits_experiments.ground.grounds import Behaving, Ground
from popbandits_experiments.ground.methods import compares_behaviours
from popbandits_experiments.ground.records import Key, Record, Space, Split
from popbandits_experiments.ground.scales import scale_of
from popbandits_experiments.ground.states import Kept
from popbandits_experiments.methods.diverse import BEHAVIOUR

EPISODES = 100
"""Fresh episodes of the final test, by the member that a user would get."""
TEST_SEED = 1_000_000_007
"""Offset of seeds, so that episodes of the final test differ from those of training."""


@dataclass
class Clock:
    """Seconds of a sitting by activity."""

    training: float = 0.0
    """Seconds of the device: acting, learning and scoring."""
    deciding: float = 0.0
    """Seconds of one core, while the device trains others."""
    waiting: float = 0.0
    """Seconds waiting for decisions, with the device idle."""
    building: float = 0.0
    testing: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    def __str__(self) -> str:
        total = time.perf_counter() - self.started
        parts = [
            f"{name} {seconds:.0f} s ({seconds / total:.0%})"
            for name, seconds in vars(self).items()
            if name != "started"
        ]
        return f"{total:.0f} s: " + ", ".join(parts)


@dataclass(frozen=True)
class Batch:
    """Populations that train in one program: methods x seeds on one task and space."""

    ground: Ground
    space: Space
    rounds: int
    methods: tuple[str, ...]
    seeds: range
    split: Split
    members: int = MEMBERS
    """Members of a population, and slots of a rival: each run trains at most members x rounds intervals."""

    @property
    def keys(self) -> list[Key]:
        """Return the identity of each population."""
        return [
            Key(self.ground.name, self.space, self.rounds, method, seed, self.members)
            for seed in self.seeds
            for method in self.methods
        ]

    @property
    def behaves(self) -> bool:
        """True if a method compares behaviours."""
        return any(compares_behaviours(method) for method in self.methods if method not in (DEFAULTS, ALONE))


class _Running:
    """A running batch."""

    def __init__(self, batch: Batch, deciders: Deciders, device: str, clock: Clock):
        self.batch, self.deciders, self.clock = batch, deciders, clock
        self.began = clock.training
        start = time.perf_counter()
        self.keys, self.members = batch.keys, batch.members
        self.seeds = [self.members * key.seed + member for key in self.keys for member in range(self.members)]
        updates = batch.ground.updates_in(batch.rounds)
        self.agents = batch.ground.make(self.seeds, updates, device)
        self.kept = Kept(self.agents, self.members)
        clock.building += time.perf_counter() - start
        space = batch.ground.spaces[batch.space]()
        self.numbers = deciders.add(len(self.keys))
        self.running = list(range(len(self.keys)))
        """Indices of the populations that have not ended."""
        self.intervals = [0] * len(self.keys)
        specs = [Spec(key.method, space, key.rounds, key.seed, key.population) for key in self.keys]
        self.deciding = deciders.advance([(n, spec, None, None) for n, spec in zip(self.numbers, specs, strict=True)])
        self.round = 0
        self.seconds = 0.0

    def advance(self) -> bool:
        """Wait for decisions and train a round; False after the last."""
        start = time.perf_counter()
        orders = self._orders()
        self.clock.waiting += time.perf_counter() - start
        if not orders:
            return False
        self.round += 1
        start = time.perf_counter()
        scores = self._train(orders)
        self.seconds += time.perf_counter() - start
        self.clock.training += time.perf_counter() - start
        told = {i: scores[self.members * i : self.members * (i + 1)] for i in self.running}
        metrics = self._metrics()
        self.deciding = self.deciders.advance([(self.numbers[i], None, own, metrics[i]) for i, own in told.items()])
        return True

    def _metrics(self) -> list[Metrics | None]:
        """Return what members report besides their scores, by population: behaviours, if a method compares them."""
        if not self.batch.behaves:
            return [None] * len(self.keys)
        if not isinstance(self.agents, Behaving):
            raise ArgumentError(f"behaviours can be compared only on tasks of PPO, got {self.batch.ground.name}")
        told: list[Metrics | None] = []
        found = self.agents.behaviours(self.members)
        for start in range(0, len(found), self.members):
            own = enumerate(found[start : start + self.members])
            told.append({member: {BEHAVIOUR: each} for member, each in own if all(map(math.isfinite, each))})
        return told

    def _orders(self) -> dict[int, Order]:
        """Gather the orders by the index of the member; idle ones have none."""
        found = [future.result() for future in self.deciding]
        self.clock.deciding += sum(seconds for _, seconds in found) / len(self.deciders)
        answers = dict(answer for share, _ in found for answer in share)
        orders: dict[int, Order] = {}
        for i in list(self.running):
            answer = answers[self.numbers[i]]
            self.kept.forget(i, answer.needed)
            if answer.orders is None:
                self.running.remove(i)
                continue
            own = {self.members * i + member: order for member, order in enumerate(answer.orders) if order is not None}
            self.intervals[i] += len(own)
            orders |= own
        return orders

    def _train(self, orders: Mapping[int, Order]) -> list[float]:
        """Train an interval of every order; return the score of every member, NaN for idle ones."""
        sources, fresh, earlier = list(range(len(self.seeds))), dict[int, int](), dict[int, tuple[int, int]]()
        for index, order in orders.items():
            if order.parent is None:
                fresh[index] = self._seed(index, order)
            elif order.parent[1] == self.round - 2:  # Rounds of parents count from 0.
                sources[index] = index - index % self.members + order.parent[0]
            else:
                earlier[index] = order.parent
        self.agents.copy(sources)
        if self.round == 1:  # Those that begin with their own seeds are new.
            fresh = {index: seed for index, seed in fresh.items() if seed != self.seeds[index]}
        if fresh:  # After the copies: these overwrite possible sources.
            self.agents.reset_all(list(fresh), list(fresh.values()))
        if earlier:
            self.kept.restore(earlier)
        # Idle members train too, with anybody's configuration: the program is for all. Nothing of it is kept.
        configs, labels = [next(iter(orders.values())).config] * len(self.seeds), [(0, 0)] * len(self.seeds)
        for index, order in orders.items():
            configs[index] = order.config
            # The random numbers of a trial do not depend on when and where it trains.
            member_round = (index % self.members, self.round)
            labels[index] = member_round if order.trial is None else (order.trial, order.age + 1)
        self.agents.assigned(labels)
        trained = self.agents.train(configs)
        scores = [trained[index].score if index in orders else math.nan for index in range(len(self.seeds))]
        self.kept.keep(self.round - 1, [index for index, score in enumerate(scores) if math.isfinite(score)])
        return scores

    def _seed(self, index: int, order: Order) -> int:
        """Return the seed of a fresh start: a trial begins as the member of its number does, or is new."""
        if order.trial is None:
            return self.seeds[index] + (1_000_000 * self.round if self.round > 1 else 0)
        again, member = divmod(order.trial, self.members)
        return self.seeds[index - index % self.members + member] + 1_000_000 * again

    def records(self, device_name: str) -> list[Record]:
        """Test what every population hands over, its last and its best state, and return the records."""
        start = time.perf_counter()
        summaries = self.deciders.fetch(self.numbers)
        batch, random_score = self.batch, scale_of(self.batch.ground.name).random
        found = [summaries[number] for number in self.numbers]
        last = self._test({i: summary.final for i, summary in enumerate(found) if summary.final})
        other = {i: one.best for i, one in enumerate(found) if one.best and one.best != one.final}
        best = {i: tested for i, tested in last.items() if i not in other} | self._test(other)
        self.clock.testing += time.perf_counter() - start
        untested = random_score, 0.0
        return [
            Record(
                *key[:3],
                steps=batch.ground.updates * batch.ground.steps,
                population=key.population,
                method=key.method,
                seed=key.seed,
                final=last.get(i, untested)[0],
                final_error=last.get(i, untested)[1],
                curve=tuple(random_score if math.isnan(score) else score for score in found[i].curve),
                late_choices=found[i].late.made,
                late_on_bound=found[i].late.on_bound,
                late_low_lr=found[i].late.low_lr,
                group=batch.ground.group,
                split=batch.split,
                device=device_name,
                seconds=self.seconds / len(self.keys),
                kept=best.get(i, untested)[0],
                kept_error=best.get(i, untested)[1],
                intervals=self.intervals[i],
            )
            for i, key in enumerate(self.keys)
        ]

    def _test(self, states: Mapping[int, tuple[int, int]]) -> dict[int, tuple[float, float]]:
        """Play fresh episodes with a kept state of each population; return mean returns and their standard errors."""
        if not states:
            return {}
        places = {self.members * i + key[0]: key for i, key in states.items()}
        self.kept.restore(places)
        seeds = [TEST_SEED + self.keys[i].seed for i in states]
        returns = self.agents.evaluate(list(places), EPISODES, seeds)
        errors = returns.std(1) / math.sqrt(returns.shape[1])
        return dict(zip(states, zip(returns.mean(1).tolist(), errors.tolist(), strict=True), strict=True))


def sit(
    batches: Iterable[Batch],
    device: str,
    save: Callable[[list[Record]], None],
    say: Callable[[str], None],
    seconds: float = math.inf,
    workers: int | None = None,
    at_once: int = 2,
) -> Clock:
    """Run batches, some at a time in turns, and save their results; start no new batch after `seconds`."""
    waiting, running, clock = list(batches), list[_Running](), Clock()
    name = torch.cuda.get_device_name() if device.startswith("cuda") else f"{platform.machine()}, {cores()} cores"
    deciders = Deciders(workers)
    try:
        while waiting or running:
            while waiting and len(running) < at_once and time.perf_counter() - clock.started < seconds:
                running.append(_Running(waiting.pop(0), deciders, device, clock))
            if not running:
                break
            for run in list(running):
                if not run.advance():
                    running.remove(run)
                    save(run.records(name))
                    batch = run.batch
                    say(f"{batch.ground.name} {batch.space} {batch.rounds} {batch.seeds}: {run.seconds:.0f} s; {clock}")
    finally:
        deciders.close()
    return clock
