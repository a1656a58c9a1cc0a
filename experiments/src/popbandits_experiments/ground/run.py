"""Train populations on real tasks and store the results; skip stored ones."""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, product
from multiprocessing import get_context
from pathlib import Path

import torch
from ConfigSpace import ConfigurationSpace

from popbandits.engines.spawning import cores
from popbandits.errors import ArgumentError
from popbandits_experiments.ground import grounds
from popbandits_experiments.ground.deciding import ALONE, DEFAULTS, MEMBERS
from popbandits_experiments.ground.grounds import GROUNDS
from popbandits_experiments.ground.methods import find
from popbandits_experiments.ground.records import RESULTS, SPACES, SPLITS, append, done, seed_range
from popbandits_experiments.ground.rivals.registry import Rival
from popbandits_experiments.ground.sitting import Batch, sit

COMPARED = (DEFAULTS, "random", "pbt", "near-pbt", "pb2-rand", "pb2-mult", "pb2-mix", "pb2-fuse")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a sitting."""
    parser.add_argument("--tasks", nargs="+", choices=GROUNDS, default=list(GROUNDS), metavar="TASK")
    parser.add_argument("--spaces", nargs="+", choices=SPACES, default=["wide"])
    parser.add_argument(
        "--methods",
        nargs="+",
        default=list(COMPARED),
        metavar="METHOD",
        help="names of ground/methods.py, which may spell settings, as in near-pbt:step=0.05; or defaults",
    )
    parser.add_argument(
        "--members",
        nargs="+",
        type=int,
        default=[MEMBERS],
        help="members of a population; the budget is members x rounds intervals (%(default)s)",
    )
    parser.add_argument("--rounds", nargs="+", type=int, default=[30], help="intervals that the budget is divided into")
    parser.add_argument("--seeds", default="0-64", help="first and one past the last, as in 0-64 (%(default)s)")
    parser.add_argument("--seeds-at-once", type=int, default=64, help="seeds in one batch (%(default)s)")
    parser.add_argument("--split", choices=SPLITS, default="development")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--at-once", type=int, default=2, help="batches that take turns (%(default)s)")
    parser.add_argument("--workers", type=int, help="processes that decide; one for each core if left out")
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        help="parts of the seeds that train at the same time, for a GPU that one process does not fill (%(default)s)",
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no batch after this time")
    parser.add_argument("--digits", type=Path, help="file with the digits, where scikit-learn is not installed")
    parser.add_argument("--results", type=Path, default=RESULTS)


def main(options: argparse.Namespace) -> None:
    """Run a sitting, or one in each of several processes."""
    if options.processes != 1:
        _run_parts(parts(options))
        return
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


def parts(options: argparse.Namespace) -> list[argparse.Namespace]:
    """Divide the seeds evenly among processes; return the options of each."""
    if options.processes < 1:
        raise ArgumentError(f"--processes must be at least 1, got {options.processes}")
    seeds = seed_range(options.seeds)
    size = math.ceil(len(seeds) / options.processes)
    own = {"processes": 1, "workers": options.workers or max(1, cores() // options.processes)}
    ranges = [seeds[start : start + size] for start in range(0, len(seeds), size)]
    return [argparse.Namespace(**{**vars(options), **own, "seeds": f"{each[0]}-{each[-1] + 1}"}) for each in ranges]


def _run_parts(parts: Sequence[argparse.Namespace]) -> None:
    """Run each part in a process, all to their ends; exit with an error if one failed."""
    context = get_context("spawn")  # A forked process cannot use the GPU.
    running = {part.seeds: context.Process(target=main, args=(part,)) for part in parts}
    for process in running.values():
        process.start()
    for process in running.values():
        process.join()
    if failed := [seeds for seeds, process in running.items() if process.exitcode]:
        sys.exit(f"the processes of seeds {', '.join(failed)} failed; the others have stored their runs")


def _batches(options: argparse.Namespace) -> Iterator[Batch]:
    """Yield the batches that are not stored yet, in the requested order."""
    for members, space, rounds, task in product(options.members, options.spaces, options.rounds, options.tasks):
        ground = GROUNDS[task]
        ground.updates_in(rounds)
        if space not in ground.spaces:
            raise ArgumentError(f"--spaces must be one that {task} has, got {space}; it has {', '.join(ground.spaces)}")
        _check_methods(options, members, rounds)
        wholes = [
            Batch(ground, space, rounds, methods, seeds, options.split, members)
            for seeds, methods in product(_batches_of_seeds(options), _by_length(options.methods))
        ]
        stored = done([key for whole in wholes for key in whole.keys], options.results)
        for whole in wholes:
            missing = {(key.seed, key.method) for key in set(whole.keys) - stored}
            by_seed = {seed: tuple(m for m in whole.methods if (seed, m) in missing) for seed in whole.seeds}
            for left, group in groupby(whole.seeds, by_seed.__getitem__):
                alike = list(group)
                if left:
                    yield replace(whole, methods=left, seeds=range(alike[0], alike[-1] + 1))


def _by_length(methods: Sequence[str]) -> list[tuple[str, ...]]:
    """Part the methods whose runs last longer than a population's from the others, which would wait idle for them."""
    longer = {name for name in _tuned(methods) if isinstance(rival := find(name), Rival) and rival.longer}
    parts = tuple(name for name in methods if name not in longer), tuple(name for name in methods if name in longer)
    return [part for part in parts if part]


def _check_methods(options: argparse.Namespace, members: int, rounds: int) -> None:
    """Make every method once: an error is raised now, not in a worker."""
    if members < 1:
        raise ArgumentError(f"--members must be at least 1, got {members}")
    for name in _tuned(options.methods):
        method = find(name)
        if isinstance(method, Rival):
            method.make(ConfigurationSpace({"lr": (0.0, 1.0)}), members, rounds, 0)
        else:
            method.make()
            method.make_selection()


def _tuned(methods: Sequence[str]) -> list[str]:
    return [name for name in methods if name not in (DEFAULTS, ALONE)]


def _batches_of_seeds(options: argparse.Namespace) -> list[range]:
    seeds = seed_range(options.seeds)
    if options.seeds_at_once < 1:
        raise ArgumentError(f"--seeds-at-once must be at least 1, got {options.seeds_at_once}")
    at_once = options.seeds_at_once
    return [seeds[start : start + at_once] for start in range(0, len(seeds), at_once)]
