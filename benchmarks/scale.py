"""What a long run costs the population: `python -m benchmarks.scale` (Linux; twenty minutes).

Many members, asynchronous, of irregular speed; nobody trains. A step is what a run loop does for one assignment: tell
its outcome, write it to the run's file (where there is one), ask for the next, write what was decided. Given are the
first tenth of the run → its last. Three members of four carry on and the fourth explores: the median is of those that
carry on, the mean of all. Each line is a process of its own. Without a file every observation stays in memory; with
one, the last few thousand.
"""

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")})  # before numpy

import argparse
import heapq
import json
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from popbandits.explorers import PBT, PB2Fuse
from popbandits.history import Assignment, Store
from popbandits.population import Population
from popbandits.space import Space

SPACE = {**{f"x{i}": (0.0, 1.0) for i in range(4)}, "h": [f"label {i}" for i in range(8)]}
METHODS = {"PBT": PBT, "PB2-Fuse": PB2Fuse}


@dataclass(frozen=True)
class Case:
    """A run to measure."""

    method: str
    members: int
    rounds: int
    stored: bool
    folder: Path | None = None
    """Where the file is; None for the usual place of temporary files."""


@dataclass(frozen=True)
class Cost:
    """Of the first and of the last tenth of a run: (median, mean) milliseconds a step, and bytes of memory after it."""

    observations: int
    deciding: list[tuple[float, float]]
    writing: list[tuple[float, float]]
    memory: list[int]
    seconds: float

    @property
    def growth(self) -> float:
        """Bytes that an observation adds."""
        return (self.memory[1] - self.memory[0]) / (0.9 * self.observations)


def memory() -> int:
    """Bytes that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def outcome(assignment: Assignment, rng: np.random.Generator) -> float:
    """A score that rises with training, the more the better the configuration is."""
    return float(0.01 * assignment.round + sum(assignment.config[f"x{i}"] for i in range(4)) + rng.normal())


def measure(case: Case) -> Cost:
    """Play one run to its end."""
    rng = np.random.default_rng(0)
    total = case.members * case.rounds
    tenth = total // 10
    deciding, writing = np.zeros((2, tenth)), np.zeros((2, tenth))  # first and last tenth
    before = time.perf_counter()
    with TemporaryDirectory(dir=case.folder) as folder, store_in(folder, case) as store:
        history = () if store is None else store
        population = Population(
            SPACE, METHODS[case.method](), size=case.members, rounds=case.rounds, synchronous=False, history=history
        )
        # When each ends, who, and what it does: members train for as long as chance has it.
        training = [(rng.exponential(), a.member, a) for a in population.ask()]
        heapq.heapify(training)
        used = [0, 0]
        for step in range(total):
            now, _, assignment = heapq.heappop(training)
            score = outcome(assignment, rng)
            began = time.perf_counter()
            population.tell(assignment, score)
            told = time.perf_counter()
            if store is not None:
                store.write(observations=[population.history[-1]])
            written = time.perf_counter()
            asked = population.ask()
            planned = time.perf_counter()
            if store is not None:
                store.write(decisions=population.decided)
            ended = time.perf_counter()
            for part, at in ((0, step), (1, step - (total - tenth))):
                if 0 <= at < tenth:
                    deciding[part, at] = told - began + planned - written
                    writing[part, at] = written - told + ended - planned
                    used[part] = memory() if at == tenth - 1 else 0
            for each in asked:
                heapq.heappush(training, (now + rng.exponential(), each.member, each))
        return Cost(total, milliseconds(deciding), milliseconds(writing), used, time.perf_counter() - before)


def milliseconds(seconds: npt.NDArray[np.float64]) -> list[tuple[float, float]]:
    """(median, mean) of each row."""
    return [(1e3 * float(np.median(row)), 1e3 * float(row.mean())) for row in seconds]


def store_in(folder: str, case: Case) -> Store | nullcontext[None]:
    """A new run's file, if there is to be one."""
    if not case.stored:
        return nullcontext()
    return Store.create(folder, Space(SPACE), {"mode": "max", "size": case.members, "rounds": case.rounds})


def main() -> None:
    """Measure every case and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=1_000, help="with a file, for PBT (%(default)s)")
    parser.add_argument("--memory-rounds", type=int, default=200, help="without a file (%(default)s)")
    parser.add_argument("--model-rounds", type=int, default=4, help="for PB2-Fuse (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where the files are; each step waits for two of its disk's syncs")
    parser.add_argument("-o", "--out", type=Path, default=Path("runs/scale.json"))
    options = parser.parse_args()
    cases = [
        Case("PBT", options.members, options.rounds, True, options.folder),
        Case("PBT", options.members, options.memory_rounds, False),
        Case("PB2-Fuse", options.members, options.model_rounds, True, options.folder),
        Case("PB2-Fuse", options.members, options.model_rounds, False),
    ]
    console = Console()
    columns = ("method", "members x rounds", "file", "decide: median ms", "mean ms", "write: median ms", "MB")
    table = Table(*columns, "bytes / observation", "seconds", title="A step of a long run, first tenth → last")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    costs = []
    for case in cases:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:  # each starts with clean memory
            cost = pool.submit(measure, case).result()
        costs.append({**asdict(case), **asdict(cost)})
        options.out.write_text(json.dumps(costs, indent=1, default=str))
        table.add_row(
            case.method,
            f"{case.members:,} x {case.rounds:,}",
            "yes" if case.stored else "no",
            " → ".join(f"{median:.3f}" for median, _ in cost.deciding),
            " → ".join(f"{mean:.3f}" for _, mean in cost.deciding),
            " → ".join(f"{median:.3f}" for median, _ in cost.writing) if case.stored else "",
            " → ".join(f"{used / 2**20:,.0f}" for used in cost.memory),
            f"{cost.growth:,.0f}",
            f"{cost.seconds:,.0f}",
        )
        console.print(f"{case.method}, {case.members:,} x {case.rounds:,}: {cost.seconds:,.0f} s", style="dim")
    console.print(table)
    console.print(f"numbers in {options.out}")


if __name__ == "__main__":
    main()
