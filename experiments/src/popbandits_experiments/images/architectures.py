"""Architectures as hyperparameters: does distilling the parent make a change affordable?

`architectures run` trains populations, all for as many epochs, and `architectures table` prints. The arms differ in
what may change, and in what becomes of the weights:

| arm | tuned | a member that changes its architecture |
|---|---|---|
| fixed | the rest | |
| inherit | the rest; first architectures are drawn, and copied with the weights | keeps that of its weights |
| restart | architecture and the rest | begins with new weights |
| distil | architecture and the rest | begins with new weights, which learn from the parent first |
| again | as distil, but all networks have the usual architecture | the same: what distillation does by itself |
"""

import argparse
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from popbandits_experiments import RESULTS as STORED
from popbandits_experiments.ground.deciding import Deciders
from popbandits_experiments.ground.statistics import improvement
from popbandits_experiments.ground.study import device_name
from popbandits_experiments.ground.tables import UNKNOWN, markdown, with_interval
from popbandits_experiments.images.learning import Part, add_run_arguments, learn, run_parts
from popbandits_experiments.images.results import Compared, Key, Result, read
from popbandits_experiments.images.sets import Images
from popbandits_experiments.images.shaped import USUAL, Change, Settings, ShapedClassifiers, rest, with_architecture

RESULTS = STORED / "architectures"
METHODS = ("pbt", "patient-pbt")
FIXED = "fixed"
ARMS: tuple[str, ...] = (FIXED, "inherit", "restart", "distil", "again")
CHANGES: dict[str, Change] = {
    FIXED: "restart",  # Nothing ever changes.
    "inherit": "inherit",
    "restart": "restart",
    "distil": "distil",
    "again": "again",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `architectures`."""
    add_run_arguments(parser, RESULTS)


def main(options: argparse.Namespace) -> None:
    """Train, or print the tables."""
    if options.command == "table":
        results = read(options.results)
        for images in dict.fromkeys(key.images for key in results):
            compared = Compared.among(results, images)
            print(f"{images}, {len(compared.seeds)} seeds\n\n{table(compared)}\n")
        return
    parts = [
        Part(
            images,
            arm,
            partial(keys, images, arm),
            partial(run, images, arm, options.epochs, options.rounds, options.device),
        )
        for images in options.sets
        for arm in ARMS
    ]
    run_parts(parts, options)


def keys(images: str, arm: str, seed: int) -> list[Key]:
    """Name the results of an arm and a seed."""
    return [Key(images, method, arm, seed) for method in METHODS]


def run(
    name: str, arm: str, budget: int, rounds: int, device: str, images: Images, seeds: range, deciders: Deciders
) -> list[Result]:
    """Let populations learn, and test what they hand over."""

    def make(seeds: Sequence[int], splits: Sequence[int], epochs: int, device: str) -> ShapedClassifiers:
        settings = Settings(epochs=epochs, distilled=epochs // 2, change=CHANGES[arm])
        return ShapedClassifiers(seeds, images, settings, device, splits)

    space = rest if arm == FIXED else with_architecture
    learnt = learn(make, {"wide": space}, METHODS, seeds, budget, rounds, deciders, device)
    hardware = device_name(device)
    return [
        Result(
            *(name, method, arm, seed, budget),
            len(one.schedule) * (budget // rounds),
            one.score,
            one.final,
            hardware,
            {} if arm == FIXED or not one.schedule else architecture(one.schedule, arm),
        )
        for (method, seed), one in learnt.items()
    ]


def architecture(schedule: Sequence[dict[str, Any]], arm: str) -> dict[str, int]:
    """Return the architecture at the end of a schedule, and how often it changed on the way."""
    shapes = [(config["width"], config["depth"]) for config in schedule]
    if arm == "inherit":
        shapes = shapes[:1]
    changes = sum(before != after for before, after in pairwise(shapes))
    width, depth = USUAL.values() if arm == "again" else shapes[-1]
    return {"width": int(width), "depth": int(depth), "changes": changes}


def table(compared: Compared) -> str:
    """Write the test accuracy of every arm, its difference to the others, and the architectures it ends with."""
    head = ["method, arm", "test accuracy, percent [95%]", "more than fixed", "more than restart"]
    head += ["seeds on which it is better than fixed", "final width", "final depth", "changes in the lineage"]
    rows = []
    for row in sorted(compared.rows, key=lambda row: METHODS.index(row[0])):
        method, arm = row
        written = [f"{method}, {arm}", with_interval(compared.level(row), "{:.2f}".format)]
        written += [compared.write_difference(row, (method, other)) for other in (FIXED, "restart")]
        pairs = [(compared.finals(row), compared.finals((method, FIXED)))]
        written.append(UNKNOWN if arm == FIXED else with_interval(improvement(pairs), "{:.2f}".format))
        for name in ("width", "depth", "changes"):
            values = [result.details[name] for result in compared.of(row) if name in result.details]
            written.append(f"{np.mean(values):.1f}" if values else UNKNOWN)
        rows.append(written)
    return markdown(head, rows)
