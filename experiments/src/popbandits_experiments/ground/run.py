"""Train populations on real tasks and store the results; skip stored ones."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import torch

from popbandits.errors import ArgumentError
from popbandits_experiments.ground import grounds
from popbandits_experiments.ground.deciding import ALONE, DEFAULTS
from popbandits_experiments.ground.grounds import GROUNDS
from popbandits_experiments.ground.methods import METHODS
from popbandits_experiments.ground.records import RESULTS, SPACES, SPLITS, Key, append, done, seed_range
from popbandits_experiments.ground.sitting import Batch, sit

COMPARED = (DEFAULTS, "random", "pbt", "patient-pbt", "pb2-rand", "pb2-mult", "pb2-mix", "pb2-fuse")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a sitting."""
    parser.add_argument("--tasks", nargs="+", choices=GROUNDS, default=list(GROUNDS), metavar="TASK")
    parser.add_argument("--spaces", nargs="+", choices=SPACES, default=["wide"])
    parser.add_argument(
        "--methods", nargs="+", choices=(DEFAULTS, ALONE, *METHODS), default=list(COMPARED), metavar="METHOD"
    )
    parser.add_argument("--rounds", nargs="+", type=int, default=[30], help="intervals that the budget is divided into")
    parser.add_argument("--seeds", default="0-64", help="first and one past the last, as in 0-64 (%(default)s)")
    parser.add_argument("--seeds-at-once", type=int, default=64, help="seeds in one batch (%(default)s)")
    parser.add_argument("--split", choices=SPLITS, default="development")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--at-once", type=int, default=2, help="batches that take turns (%(default)s)")
    parser.add_argument("--workers", type=int, help="processes that decide; one for each core if left out")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no batch after this time")
    parser.add_argument("--digits", type=Path, help="file with the digits, where scikit-learn is not installed")
    parser.add_argument("--results", type=Path, default=RESULTS)


def main(options: argparse.Namespace) -> None:
    """Run a sitting."""
    grounds.DIGITS = options.digits
    clock = sit(
        _batches(options),
        options.device,
        lambda records: append(records, options.results),
        lambda text: print(text, flush=True),
        options.seconds,
        options.workers,
        options.at_once,
    )
    print(clock)


def _batches(options: argparse.Namespace) -> Iterator[Batch]:
    """Yield the batches that are not stored yet, in the requested order."""
    for method in options.methods:
        if method not in (DEFAULTS, ALONE):
            METHODS[method].make()  # Raises now, not in a worker, if it is not installed.
    for space in options.spaces:
        for rounds in options.rounds:
            for task in options.tasks:
                ground = GROUNDS[task]
                ground.updates_in(rounds)
                if space not in ground.spaces:
                    raise ArgumentError(
                        f"--spaces must be one that {task} has, got {space}; it has {', '.join(ground.spaces)}"
                    )
                for seeds in _batches_of_seeds(options):
                    whole = Batch(ground, space, rounds, tuple(options.methods), seeds, options.split)
                    missing = set(whole.keys) - done(whole.keys, options.results)
                    by_seed = {
                        seed: tuple(m for m in options.methods if Key(task, space, rounds, m, seed) in missing)
                        for seed in seeds
                    }
                    for methods, group in groupby(seeds, by_seed.__getitem__):
                        alike = list(group)
                        if methods:
                            yield replace(whole, methods=methods, seeds=range(alike[0], alike[-1] + 1))


def _batches_of_seeds(options: argparse.Namespace) -> list[range]:
    seeds = seed_range(options.seeds)
    if options.seeds_at_once < 1:
        raise ArgumentError(f"--seeds-at-once must be at least 1, got {options.seeds_at_once}")
    at_once = options.seeds_at_once
    return [seeds[start : start + at_once] for start in range(0, len(seeds), at_once)]
