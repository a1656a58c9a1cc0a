"""Populations on image sets: what they learnt, and networks trained along a schedule."""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from popbandits.errors import ArgumentError
from popbandits_experiments.ground.deciding import MEMBERS, Deciders
from popbandits_experiments.ground.grounds import Ground, Spaces
from popbandits_experiments.ground.records import seed_range
from popbandits_experiments.ground.sitting import Batch, Clock, Running
from popbandits_experiments.images.classifiers import Classifiers
from popbandits_experiments.images.results import Key, Result, append, read
from popbandits_experiments.images.sets import SETS, Images

EPOCHS = 300
"""Passes of a member over its training images in a whole run, unless another number is asked for."""
GUESSED = 10.0
"""Accuracy of guessing, in percent: that of a population whose members all failed."""
REPLAYED = 50_000_000
"""Offset of the seeds of networks that are trained along a schedule: none is a member's."""

Make = Callable[[Sequence[int], Sequence[int], int, str], Classifiers]
"""Function that makes classifiers from their seeds, their splits' seeds, the epochs of an interval and a device."""


@dataclass(frozen=True)
class Learnt:
    """What a population hands over: the state with the best last score."""

    score: float
    final: float
    """Accuracy on the test images, in percent."""
    schedule: list[dict[str, Any]]
    """Configurations of the intervals that led to it."""


def learn(
    make: Make,
    spaces: Spaces,
    methods: Sequence[str],
    seeds: range,
    budget: int,
    rounds: int,
    deciders: Deciders,
    device: str,
) -> dict[tuple[str, int], Learnt]:
    """Train populations, all in one program; return what each learnt, by method and seed."""

    def make_members(member_seeds: Sequence[int], epochs: int, device: str) -> Classifiers:
        return make(member_seeds, [seed // MEMBERS for seed in member_seeds], epochs, device)

    ground = Ground("images", "device", budget, 1, make_members, spaces)
    running = Running(Batch(ground, "wide", rounds, tuple(methods), seeds, "development"), deciders, device, Clock())
    while running.advance():
        pass
    summaries = deciders.fetch(running.numbers)
    found = [summaries[number] for number in running.numbers]
    tested = running.test({i: summary.final for i, summary in enumerate(found) if summary.final})
    failed = Learnt(GUESSED, GUESSED, [])
    return {
        (key.method, key.seed): Learnt(found[i].curve[-1], tested[i][0], found[i].schedule) if i in tested else failed
        for i, key in enumerate(running.keys)
    }


def stretch(schedule: Sequence[Mapping[str, Any]], rounds: int) -> list[dict[str, Any]]:
    """Stretch a schedule to a number of rounds: lineages are shorter where a population went back to earlier states.

    >>> stretch([{"lr": 1}, {"lr": 2}], 4)
    [{'lr': 1}, {'lr': 1}, {'lr': 2}, {'lr': 2}]
    """
    return [dict(schedule[round_ * len(schedule) // rounds]) for round_ in range(rounds)]


def replay(
    make: Make, schedules: Sequence[Sequence[Mapping[str, Any]]], seeds: Sequence[int], budget: int, device: str
) -> list[tuple[float, float]]:
    """Train new networks along schedules of equal length; return their last score and their test accuracy.

    Networks of one seed have the same split, first weights and random numbers, whatever their schedules.
    """
    rounds = len(schedules[0])
    agents = make([REPLAYED + seed for seed in seeds], seeds, budget // rounds, device)
    for round_ in range(rounds):
        agents.assigned([(0, round_)] * len(seeds))
        outcomes = agents.train([schedule[round_] for schedule in schedules])
    finals = agents.evaluate(range(len(seeds))).mean(1).tolist()
    return [(outcome.score, final) for outcome, final in zip(outcomes, finals, strict=True)]


def add_run_arguments(parser: argparse.ArgumentParser, results: Path) -> None:
    """Add the options of a command that runs an experiment, or prints its table."""
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", default="0-32", help="first and one past the last, as in 0-32 (%(default)s)")
    parser.add_argument("--seeds-at-once", type=int, default=32, help="seeds in one batch (%(default)s)")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="epochs of each network (%(default)s)")
    parser.add_argument("--rounds", type=int, default=30, help="intervals of these epochs (%(default)s)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, help="processes that decide; one for each core if left out")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no batch after this time")
    parser.add_argument(
        "--images", type=Path, help="file with the images, written by `sets`, where their packages are not installed"
    )
    parser.add_argument("--results", type=Path, default=results)


@dataclass(frozen=True)
class Part:
    """A part of an experiment that trains at once."""

    images: str
    name: str
    keys: Callable[[int], Sequence[Key]]
    """Function that names the results of a seed."""
    run: Callable[[Images, range, Deciders], list[Result]]
    """Function that makes the results of seeds."""


def run_parts(parts: Sequence[Part], options: argparse.Namespace) -> None:
    """Run the parts that are not stored yet, a batch of seeds at a time, and store their results."""
    if min(options.rounds, options.epochs) < 1 or options.epochs % options.rounds:
        raise ArgumentError(f"--rounds must divide the {options.epochs} epochs, got {options.rounds}")
    if options.seeds_at_once < 1:
        raise ArgumentError(f"--seeds-at-once must be at least 1, got {options.seeds_at_once}")
    start = time.perf_counter()
    missing = [(part, seeds) for part in parts for seeds in _missing(part, options)]
    images = {name: Images.load(name, options.images) for name in dict.fromkeys(part.images for part, _ in missing)}
    if not missing:
        return
    deciders = Deciders(options.workers)
    try:
        for part, seeds in missing:
            if time.perf_counter() - start >= options.seconds:
                break
            began = time.perf_counter()
            append(part.run(images[part.images], seeds, deciders), options.results)
            spent = time.perf_counter() - began
            print(f"{part.images}, {part.name}: seeds {seeds.start} to {seeds[-1]}, {spent:.0f} s", flush=True)
    finally:
        deciders.close()


def _missing(part: Part, options: argparse.Namespace) -> Iterator[range]:
    """Yield runs of seeds of which something is missing. What is stored of a seed must be all of it, or nothing."""
    stored = read(options.results)
    if others := {result.budget for result in stored.values()} - {options.epochs}:
        raise ArgumentError(
            f"--epochs must be those of {options.results}, {others.pop()}, got {options.epochs}; name another folder "
            "by --results"
        )
    waiting: list[int] = []
    for seed in seed_range(options.seeds):
        missing = [key for key in part.keys(seed) if key not in stored]
        if missing and len(missing) < len(part.keys(seed)):
            raise ArgumentError(
                f"{options.results} has a part of seed {seed} of {part.images} only, without {missing[0].arm} of "
                f"{missing[0].method}; name another folder by --results"
            )
        if waiting and (not missing or len(waiting) == options.seeds_at_once):
            yield range(waiting[0], waiting[-1] + 1)
            waiting = []
        if missing:
            waiting.append(seed)
    if waiting:
        yield range(waiting[0], waiting[-1] + 1)
