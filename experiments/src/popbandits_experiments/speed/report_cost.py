"""Cost of a report: `python -m popbandits_experiments.speed.report_cost` (a minute or two).

A made-up run of each size is written like a real run's file, with decisions on record. Its report is made in a new
process, so that imports count. The table shows seconds of wall clock and of processors, the size of the page, and the
peak memory of the process.
"""

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from popbandits.history import Assignment, Decision
from popbandits.space import Space
from popbandits.storage import Store
from popbandits_experiments.speed.made_up import LABELS, SPACE, made_up_rounds

SIZES = {
    "50 rounds x 12 members": (12, 50),
    "1,000 rounds x 100 members": (100, 1000),
    "100 rounds x 1,000 members": (1000, 100),
}
METHOD = {"make": "popbandits.explorers.pb2_fuse:PB2Fuse", "settings": {}}


def write_run(directory: Path, members: int, rounds: int) -> None:
    """Write a made-up run; members that copied others have decisions on record."""
    rng = np.random.default_rng(0)
    about = {"mode": "max", "size": members, "rounds": rounds, "seed": 0, "method": METHOD}
    with Store.create(directory, Space(SPACE), about) as store:
        for observations in islice(made_up_rounds(members), rounds):
            chance = {"probabilities": {"h": rng.dirichlet(np.ones(len(LABELS))).tolist()}}
            told = [
                replace(o, seconds=1.0, decision=chance if o.parent and o.parent[0] != o.member else {})
                for o in observations
            ]
            made = [
                Decision(Assignment(*o.key, o.config, o.parent, chance), members * o.round, seconds=0.03)
                for o in told
                if o.decision
            ]
            store.write(told, made)


def measure(directory: Path, output: Path) -> tuple[float, float, float, float]:
    """Make the report in this process; return seconds, processor seconds, and megabytes of the page and of memory."""
    began = time.perf_counter()
    from popbandits.reports.report import write_report

    write_report([directory], output)
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return (
        time.perf_counter() - began,
        sum(one.ru_utime + one.ru_stime for one in usage),
        output.stat().st_size / 1e6,
        usage[0].ru_maxrss / 1024,
    )


def main() -> None:
    table = Table("run", "observations", "seconds", "processor seconds", "page, MB", "memory, MB")
    with TemporaryDirectory() as folder:
        for name, (members, rounds) in SIZES.items():
            directory = Path(folder, name)
            write_run(directory, members, rounds)
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
                costs = fresh.submit(measure, directory, directory.with_suffix(".html")).result()
            table.add_row(name, f"{members * rounds:,}", *(f"{cost:.1f}" for cost in costs))
    Console().print(table)


if __name__ == "__main__":
    main()
