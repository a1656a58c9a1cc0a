"""Many populations at once on one device: while one batch trains, the populations of another decide."""

import math
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

from popbandits.engines.spawning import cores
from popbandits_experiments.ground.deciding import MEMBERS, Deciders, Order, Spec
from popbandits_experiments.ground.grounds import Ground
from popbandits_experiments.ground.records import Key, Record, Space, Split
from popbandits_experiments.ground.scales import scale_of
from popbandits_experiments.ground.states import Kept

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

    @property
    def keys(self) -> list[Key]:
        """Return the identity of each population."""
        return [
            Key(self.ground.name, self.space, self.rounds, method, seed)
            for seed in self.seeds
            for method in self.methods
        ]


class _Running:
    """A running batch."""

    def __init__(self, batch: Batch, deciders: Deciders, device: str, clock: Clock):
        self.batch, self.deciders, self.clock = batch, deciders, clock
        self.began = clock.training
        start = time.perf_counter()
        self.keys = batch.keys
        self.seeds = [MEMBERS * key.seed + member for key in self.keys for member in range(MEMBERS)]
        updates = batch.ground.updates_in(batch.rounds)
        self.agents = batch.ground.make(self.seeds, updates, device)
        self.kept = Kept(self.agents, MEMBERS)
        clock.building += time.perf_counter() - start
        space = batch.ground.spaces[batch.space]()
        self.numbers = deciders.add(len(self.keys))
        specs = [Spec(key.method, space, key.rounds, key.seed) for key in self.keys]
        self.deciding = deciders.advance([(n, spec, None) for n, spec in zip(self.numbers, specs, strict=True)])
        self.round = 0
        self.seconds = 0.0

    def advance(self) -> bool:
        """Wait for decisions and train a round; False after the last."""
        start = time.perf_counter()
        orders = self._orders()
        self.clock.waiting += time.perf_counter() - start
        if orders is None:
            return False
        self.round += 1
        start = time.perf_counter()
        scores = self._train(orders)
        self.seconds += time.perf_counter() - start
        self.clock.training += time.perf_counter() - start
        told = [scores[MEMBERS * i : MEMBERS * (i + 1)] for i in range(len(self.keys))]
        self.deciding = self.deciders.advance([(n, None, s) for n, s in zip(self.numbers, told, strict=True)])
        return True

    def _orders(self) -> list[Order] | None:
        """Gather every member's order, in the order of the members."""
        found = [future.result() for future in self.deciding]
        self.clock.deciding += sum(seconds for _, seconds in found) / len(self.deciders)
        answers = dict(answer for share, _ in found for answer in share)
        by_population = [answers[number] for number in self.numbers]
        if any(orders is None for orders in by_population):
            return None
        return [order for orders in by_population if orders for order in orders]

    def _train(self, orders: Sequence[Order]) -> list[float]:
        sources = list(range(len(orders)))
        for index, order in enumerate(orders):
            if order.parent is not None and order.parent[1] == self.round - 2:  # Rounds of parents count from 0.
                sources[index] = index - index % MEMBERS + order.parent[0]
        self.agents.copy(sources)
        for index, order in enumerate(orders):  # After the copies: these overwrite possible sources.
            if order.parent is None and self.round > 1:  # In round 1, all are new.
                self.agents.reset(index, self.seeds[index] + 1_000_000 * self.round)
            elif order.parent is not None and order.parent[1] < self.round - 2:
                self.kept.restore(index, order.parent)
        self.agents.assigned([(index % MEMBERS, self.round) for index in range(len(orders))])
        scores = [outcome.score for outcome in self.agents.train([order.config for order in orders])]
        self.kept.keep(self.round - 1, scores)
        return scores

    def records(self, device_name: str) -> list[Record]:
        """Test the selected member of every population, and return the records."""
        start = time.perf_counter()
        summaries = self.deciders.fetch(self.numbers)
        batch, chosen = self.batch, {}
        random_score = scale_of(batch.ground.name).random
        for index, number in enumerate(self.numbers):
            if (member := summaries[number].handed_over) is not None:
                chosen[number] = MEMBERS * index + member
        means, errors = dict[int, float](), dict[int, float]()
        if chosen:
            seeds = [TEST_SEED + self.keys[index // MEMBERS].seed for index in chosen.values()]
            returns = self.agents.evaluate(list(chosen.values()), EPISODES, seeds)
            means = dict(zip(chosen, returns.mean(1).tolist(), strict=True))
            errors = dict(zip(chosen, (returns.std(1) / math.sqrt(returns.shape[1])).tolist(), strict=True))
        self.clock.testing += time.perf_counter() - start
        return [
            Record(
                *key[:3],
                steps=batch.ground.updates * batch.ground.steps,
                population=MEMBERS,
                method=key.method,
                seed=key.seed,
                final=means.get(number, random_score),
                final_error=errors.get(number, 0.0),
                curve=tuple(random_score if math.isnan(score) else score for score in summaries[number].curve),
                late_choices=summaries[number].late.made,
                late_on_bound=summaries[number].late.on_bound,
                late_low_lr=summaries[number].late.low_lr,
                group=batch.ground.group,
                split=batch.split,
                device=device_name,
                seconds=self.seconds / len(self.keys),
            )
            for key, number in zip(self.keys, self.numbers, strict=True)
        ]


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
