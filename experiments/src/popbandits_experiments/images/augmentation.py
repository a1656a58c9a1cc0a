"""Population based augmentation: is it the schedule that helps? `augmentation run` trains, `augmentation table` prints.

A population learns a schedule of augmentation; then new networks are trained with it, with the same schedule in another
order, and with its mean throughout. Beside them: the best of as many random constant settings as there are members, the
middle of the space, and no augmentation. All networks train for as many epochs, and those of one seed have the same
split of the images, the same first weights and random numbers. Settings are chosen by validation images alone.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from popbandits_experiments import RESULTS as STORED
from popbandits_experiments.ground.deciding import DEFAULTS, MEMBERS, Deciders
from popbandits_experiments.ground.study import device_name
from popbandits_experiments.ground.tables import markdown, with_interval
from popbandits_experiments.images import augmented
from popbandits_experiments.images.augmented import AugmentedClassifiers, magnitude, probability
from popbandits_experiments.images.learning import Part, add_run_arguments, learn, replay, run_parts, stretch
from popbandits_experiments.images.operations import OPERATIONS
from popbandits_experiments.images.results import Compared, Key, Result, Row, read
from popbandits_experiments.images.sets import Images

RESULTS = STORED / "augmentation"
TUNED = ("pbt", "patient-pbt")
CONSTANT = ("random", DEFAULTS)
"""Methods whose members keep their first configuration: random ones, and no augmentation."""
POPULATION, LEARNT, SHUFFLED, MEAN, MIDDLE = "population", "learnt", "shuffled", "mean", "middle"
CONTROLS = (SHUFFLED, MEAN)
TENTHS = 10
WORDS = {
    POPULATION: "what the population hands over",
    LEARNT: "trained anew with the learnt schedule",
    SHUFFLED: "the schedule in random order",
    MEAN: "the schedule's mean throughout",
}
LABELS = {
    ("random", POPULATION): f"random constant, best of {MEMBERS}",
    ("random", LEARNT): f"random constant, best of {MEMBERS}, trained anew",
    (DEFAULTS, POPULATION): f"no augmentation, best of {MEMBERS}",
    (DEFAULTS, LEARNT): "no augmentation",
    (DEFAULTS, MIDDLE): "middle of the space throughout",
}
"""Rows that no population learns."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `augmentation`."""
    add_run_arguments(parser, RESULTS)


def main(options: argparse.Namespace) -> None:
    """Train, or print the tables."""
    if options.command == "table":
        results = read(options.results)
        for images in dict.fromkeys(key.images for key in results):
            compared = Compared.among(results, images)
            print(f"{images}, {len(compared.seeds)} seeds\n\n{table(compared)}\n\n{strengths(compared)}\n")
        return
    parts = [
        Part(
            images,
            "augmentation",
            partial(keys, images),
            partial(run, images, options.epochs, options.rounds, options.device),
        )
        for images in options.sets
    ]
    run_parts(parts, options)


def arms(method: str) -> tuple[str, ...]:
    """Return the names of what is trained for a method."""
    if method in TUNED:
        return (POPULATION, LEARNT, *CONTROLS)
    return (POPULATION, LEARNT, MIDDLE) if method == DEFAULTS else (POPULATION, LEARNT)


def keys(images: str, seed: int) -> list[Key]:
    """Name the results of a seed."""
    return [Key(images, method, arm, seed) for method in (*TUNED, *CONSTANT) for arm in arms(method)]


def run(
    name: str, budget: int, rounds: int, device: str, images: Images, seeds: range, deciders: Deciders
) -> list[Result]:
    """Let populations learn, then train new networks with what they learnt and with its controls."""

    def make(seeds: Sequence[int], splits: Sequence[int], epochs: int, device: str) -> AugmentedClassifiers:
        return AugmentedClassifiers(seeds, images, epochs=epochs, device=device, splits=splits)

    methods = (*TUNED, *CONSTANT)
    learnt = learn(make, {"wide": augmented.space}, methods, seeds, budget, rounds, deciders, device)
    schedules = {
        (method, arm, seed): schedule
        for (method, seed), one in learnt.items()
        for arm, schedule in controls(method, stretch(one.schedule, rounds), seed).items()
    }
    replayed = replay(make, list(schedules.values()), [seed for _, _, seed in schedules], budget, device)
    hardware, found = device_name(device), dict[Key, Result]()
    for (method, seed), one in learnt.items():
        key = Key(name, method, POPULATION, seed)
        epochs = len(one.schedule) * (budget // rounds)
        found[key] = Result(*key, budget, epochs, one.score, one.final, hardware)
    for (method, arm, seed), (score, final) in zip(schedules, replayed, strict=True):
        key = Key(name, method, arm, seed)
        details = {"tenths": in_tenths(schedules[method, arm, seed])} if method in TUNED and arm == LEARNT else {}
        found[key] = Result(*key, budget, budget, score, final, hardware, details)
    return [found[key] for seed in seeds for key in keys(name, seed)]


Schedule = list[dict[str, Any]]


def controls(method: str, schedule: Schedule, seed: int) -> dict[str, Schedule]:
    """Return the schedules to train with, by arm: the learnt one and what it is compared with."""
    found = {LEARNT: schedule}
    if method in TUNED:
        order = np.random.default_rng([seed, TUNED.index(method)]).permutation(len(schedule))
        found |= {SHUFFLED: [schedule[i] for i in order], MEAN: [average(schedule)] * len(schedule)}
    if method == DEFAULTS:
        found[MIDDLE] = [augmented.middle()] * len(schedule)
    return found


def average(schedule: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean of each number of a schedule, and the most frequent of each choice; of several, the first.

    >>> average([{"rotate_p": 0.25, "most": 2}, {"rotate_p": 0.5, "most": 3}, {"rotate_p": 0.75, "most": 3}])
    {'rotate_p': 0.5, 'most': 3}
    """
    found: dict[str, Any] = {}
    for name in schedule[0]:
        values = [config[name] for config in schedule]
        number = isinstance(values[0], float)
        found[name] = float(np.mean(values)) if number else Counter(values).most_common(1)[0][0]
    return found


def in_tenths(schedule: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return each operation's expected share of its largest amount, probability times magnitude, by tenth of the run.

    Without the bound on the number of operations of an image.
    """
    return {
        one: [
            float(np.mean([config[probability(one)] * config[magnitude(one)] for config in tenth]))
            for tenth in np.array_split(np.array(schedule, dtype=object), TENTHS)
            if len(tenth)
        ]
        for one in OPERATIONS
    }


def label(row: Row) -> str:
    """Name a row of the table."""
    method, arm = row
    return LABELS.get(row) or f"{method}: {WORDS[arm]}"


def table(compared: Compared) -> str:
    """Write the test accuracy of every arm, its difference to no augmentation, and the learnt schedules' to it."""
    head = ["test accuracy, percent", "mean [95%]", "more than no augmentation"]
    head += [f"{method}'s schedule more than this" for method in TUNED]
    rows = []
    for row in compared.rows:
        pairs = [(row, (DEFAULTS, LEARNT)), *(((method, LEARNT), row) for method in TUNED)]
        written = [compared.write_difference(ours, theirs) for ours, theirs in pairs]
        rows.append([label(row), with_interval(compared.level(row), "{:.2f}".format), *written])
    return markdown(head, rows)


def strengths(compared: Compared) -> str:
    """Write the mean learnt strength of each operation, by third of the run."""
    head = ["share of the largest amount, mean over seeds"]
    head += [f"{method}, {third} third" for method in TUNED for third in ("first", "second", "last")]
    rows = []
    for one in OPERATIONS:
        row = [one]
        for method in TUNED:
            runs = np.array([result.details["tenths"][one] for result in compared.of((method, LEARNT))])
            row += [f"{third.mean():.2f}" for third in np.array_split(runs, 3, axis=1)]
        rows.append(row)
    return markdown(head, rows)
