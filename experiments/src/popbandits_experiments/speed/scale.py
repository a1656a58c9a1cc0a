"""Cost of the run loop: `python -m popbandits_experiments.speed.scale --folder /dev/shm` (Linux; half an hour).

A thousand members for a thousand rounds of PBT, asynchronous by default, through the whole run loop: an agent that does
nothing but save and load a small file, checkpoints with checksums, every observation and decision committed to the
run's file. The table shows milliseconds of an assignment for each tenth of the run. Deciding lasts from the moment an
outcome is on record until the decision is: three members of four continue and the fourth explores, so the median is of
those that continue, the mean of all. Processor time is measured, which other programs hardly disturb, and at last the
wall clock, which waits for the disk.
"""

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")})  # before numpy

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from popbandits import PBT, tune
from popbandits.history import Decision, Observation
from popbandits.views.view import View
from popbandits_experiments.speed.made_up import DIMENSIONS, SPACE

TENTHS = 10


class Idle:
    """An agent that does nothing; its score rises with training, faster with better configurations."""

    def __init__(self, seed: int):
        self.rng, self.rounds = np.random.default_rng(seed), 0

    def train(self, config: dict[str, Any]) -> float:
        self.rounds += 1
        return float(0.01 * self.rounds + sum(config[f"x{i}"] for i in range(DIMENSIONS)) + self.rng.normal())

    def save(self, directory: Path) -> None:
        (directory / "rounds").write_text(str(self.rounds))

    def load(self, directory: Path) -> None:
        self.rounds = int((directory / "rounds").read_text())


class Meter(View):
    """View that reads the clocks when an outcome is on record, and when the next decision is."""

    def __init__(self, total: int):
        self.count = 0
        self.told_at, self.asked_at, self.wall = np.full((3, total), np.nan)
        self.megabytes: list[float] = []

    def told(self, observation: Observation) -> None:
        self.told_at[self.count], self.wall[self.count] = time.process_time(), time.perf_counter()
        self.count += 1
        if self.count >= (len(self.megabytes) + 1) * len(self.wall) / TENTHS:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.megabytes.append(pages * resource.getpagesize() / 2**20)

    def asked(self, decisions: Sequence[Decision]) -> None:
        if self.count:
            self.asked_at[self.count - 1] = time.process_time()

    def table(self, title: str) -> Table:
        """Build a table with a row for each tenth of the run."""
        table = Table(
            "tenth", "decide: median ms", "mean", "all of it: median ms", "mean", "wall clock, mean", "MB", title=title
        )
        everything, wall = np.diff([self.told_at, self.wall], prepend=np.nan)
        tenths = (np.array_split(1e3 * each, TENTHS) for each in (self.asked_at - self.told_at, everything, wall))
        for number, (decide, whole, waited) in enumerate(zip(*tenths, strict=True)):
            both = [f"{summary(each):.2f}" for each in (decide, whole) for summary in (np.nanmedian, np.nanmean)]
            table.add_row(str(number + 1), *both, f"{np.nanmean(waited):.2f}", f"{self.megabytes[number]:,.0f}")
        return table


def main() -> None:
    """Play one run to its end and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--synchronous", action="store_true")
    parser.add_argument("--engine", choices=("in-process", "threads", "processes", "ray"), default="in-process")
    parser.add_argument("--folder", type=Path, help="folder of the run; each assignment waits for its disk's syncs")
    options = parser.parse_args()
    meter = Meter(options.members * options.rounds)
    with TemporaryDirectory(dir=options.folder) as directory:
        tune(
            Idle,
            SPACE,
            PBT(),
            population=options.members,
            rounds=options.rounds,
            synchronous=options.synchronous,
            engine=options.engine,
            directory=directory,
            progress=meter,
        )
    Console(width=120).print(meter.table(f"{options.members:,} members x {options.rounds:,} rounds, {options.engine}"))


if __name__ == "__main__":
    main()
