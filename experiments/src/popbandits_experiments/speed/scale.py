"""Cost of a long run: `python -m popbandits_experiments.speed.scale --folder /dev/shm` (Linux; half an hour).

A thousand members for a thousand rounds, asynchronous, through the whole run loop: an agent that does nothing but save
and load a small file, checkpoints with checksums, every observation and decision committed to the run's file. The table
shows the first tenth of the run → its last. Deciding lasts from the moment an outcome is on record until the decision
is: three members of four continue and the fourth explores, so the median is of those that continue, the mean of all.
Processor time is measured, which other programs hardly disturb. Each line is its own process.
"""

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")})  # before numpy

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from popbandits import PBT, PB2Fuse, tune
from popbandits.history import Decision, Observation
from popbandits.views.view import View

SPACE = {**{f"x{i}": (0.0, 1.0) for i in range(4)}, "h": [f"label {i}" for i in range(8)]}
METHODS = {"PBT": PBT, "PB2-Fuse": PB2Fuse}


class Idle:
    """An agent that does nothing; its score rises with training, faster with better configurations."""

    def __init__(self, seed: int):
        self.rng, self.rounds = np.random.default_rng(seed), 0

    def train(self, config: dict[str, Any]) -> float:
        self.rounds += 1
        return float(0.01 * self.rounds + sum(config[f"x{i}"] for i in range(4)) + self.rng.normal())

    def save(self, directory: Path) -> None:
        (directory / "rounds").write_text(str(self.rounds))

    def load(self, directory: Path) -> None:
        self.rounds = int((directory / "rounds").read_text())


@dataclass(frozen=True)
class Cost:
    """(median, mean) milliseconds per assignment and megabytes, for each tenth of a run."""

    method: str
    members: int
    rounds: int
    deciding: list[tuple[float, float]]
    everything: list[tuple[float, float]]
    memory: list[float]
    seconds: float


class Meter(View):
    """View that reads the clock when an outcome is on record, and when the next decision is."""

    def __init__(self, total: int):
        self.tenth, self.count = total // 10, 0
        self.told_at, self.asked_at = np.full(total, np.nan), np.full(total, np.nan)
        self.memory: list[float] = []

    def told(self, observation: Observation) -> None:
        self.told_at[self.count] = time.process_time()
        self.count += 1
        if self.count % self.tenth == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.memory.append(pages * resource.getpagesize() / 2**20)

    def asked(self, decisions: Sequence[Decision]) -> None:
        if self.count:
            self.asked_at[self.count - 1] = time.process_time()


def measure(method: str, members: int, rounds: int, folder: Path | None) -> Cost:
    """Play one run to its end."""
    meter, began = Meter(members * rounds), time.perf_counter()
    with TemporaryDirectory(dir=folder) as directory:
        tune(
            Idle,
            SPACE,
            METHODS[method](),
            population=members,
            rounds=rounds,
            synchronous=False,
            directory=directory,
            progress=meter,
        )
        seconds = time.perf_counter() - began
    deciding, everything = meter.asked_at - meter.told_at, np.diff(meter.told_at, prepend=np.nan)
    return Cost(method, members, rounds, by_tenth(deciding), by_tenth(everything), meter.memory, seconds)


def by_tenth(seconds: np.ndarray) -> list[tuple[float, float]]:
    """Return (median, mean) milliseconds of each tenth."""
    parts = np.array_split(1e3 * seconds, 10)
    return [(float(np.nanmedian(part)), float(np.nanmean(part))) for part in parts]


def main() -> None:
    """Measure every case and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=1_000, help="for PBT (%(default)s)")
    parser.add_argument("--model-rounds", type=int, default=12, help="for PB2-Fuse (%(default)s)")
    parser.add_argument("--folder", type=Path, help="folder of the runs; each assignment waits for its disk's syncs")
    parser.add_argument("-o", "--out", type=Path, default=Path("runs/scale.json"))
    options = parser.parse_args()
    console = Console(width=140)
    columns = ("method", "members x rounds", "decide: median ms", "mean ms", "all of it: median ms", "mean ms", "MB")
    table = Table(*columns, "minutes", title="An assignment of a long run, first tenth → last")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    costs = []
    for method, rounds in (("PBT", options.rounds), ("PB2-Fuse", options.model_rounds)):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:  # each starts with fresh memory
            cost = pool.submit(measure, method, options.members, rounds, options.folder).result()
        costs.append(asdict(cost))
        options.out.write_text(json.dumps(costs, indent=1))
        ends = [
            f"{values[0][which]:.2f} → {values[-1][which]:.2f}"
            for values in (cost.deciding, cost.everything)
            for which in (0, 1)
        ]
        megabytes = f"{cost.memory[0]:,.0f} → {cost.memory[-1]:,.0f}"
        table.add_row(method, f"{cost.members:,} x {rounds:,}", *ends, megabytes, f"{cost.seconds / 60:.0f}")
        console.print(f"{method}, {cost.members:,} x {rounds:,}: {cost.seconds:,.0f} s", style="dim")
    console.print(table)
    console.print(f"tenth by tenth in {options.out}")


if __name__ == "__main__":
    main()
