"""Cost of a report: `python -m popbandits_experiments.speed.report_cost` (a minute or two).

A synthetic run of each size is written like a real run's file, with decisions on record. Its report is made in a new
process, so that imports count. The table shows seconds of wall clock and of processors, the size of the page, and the
peak memory of the process.

`--load` only measures reading, `History.load`: processor seconds in bulk, and one observation at a time, as before; the
best of three.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from popbandits.history import Assignment, Decision, History, Observation
from popbandits.space import Space
from popbandits.storage import Store, coding

SIZES = {
    "50 rounds x 12 members": (12, 50),
    "1,000 rounds x 100 members": (100, 1000),
    "100 rounds x 1,000 members": (1000, 100),
}
COSTS = ("seconds", "processor seconds", "page, MB", "memory, MB")
METHOD = {"make": "popbandits.explorers.pb2_fuse:PB2Fuse", "settings": {}}
SPACE = {**{f"x{i}": (0.0, 1.0) for i in range(4)}, "h": [f"label {i}" for i in range(8)]}


def write_run(directory: Path, members: int, rounds: int) -> None:
    """Write a run in which a quarter copies the best quarter and explores every round; one interval in 200 fails."""
    space, rng = Space(SPACE), np.random.default_rng(0)
    about = {"mode": "max", "size": members, "rounds": rounds, "seed": 0, "method": METHOD}
    scores = np.full(members, np.nan)
    configs = space.decode(space.sample(members, rng))
    with Store.create(directory, space, about) as store:
        for round_ in range(rounds):
            parents: list[tuple[int, int] | None] = [(m, round_ - 1) if round_ else None for m in range(members)]
            chance = {"probabilities": {"h": rng.dirichlet(np.ones(8)).tolist()}}
            explored = []
            if round_:
                order = np.argsort(scores)
                quarter = max(1, members // 4)
                explored = order[:quarter].tolist()
                fresh = space.decode(space.sample(quarter, rng))
                for m, best, config in zip(explored, order[-quarter:].tolist(), fresh, strict=True):
                    parents[m], configs[m] = (best, round_ - 1), config
            befores = [float("nan") if parent is None else scores[parent[0]] for parent in parents]
            gains = np.array([c["x0"] * (1 + int(c["h"][-1])) for c in configs]) + rng.normal(size=members)
            scores = np.nan_to_num(np.array(befores)) + gains
            store.write(
                [
                    Observation(
                        m,
                        round_,
                        configs[m],
                        parents[m],
                        befores[m],
                        float(scores[m]),
                        seconds=1.0,
                        decision=chance if m in explored else {},
                    )
                    for m in range(members)
                ],
                [
                    Decision(Assignment(m, round_, configs[m], parents[m], chance), members * round_, seconds=0.03)
                    for m in explored
                ],
            )


def report(directory: Path, output: Path) -> dict[str, float]:
    """Make the report in this process and return its cost."""
    began = time.perf_counter()
    from popbandits.reports.report import write_report

    write_report([directory], output)
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "seconds": time.perf_counter() - began,
        "processor": sum(one.ru_utime + one.ru_stime for one in usage),
        "megabytes": output.stat().st_size / 1e6,
        "memory": usage[0].ru_maxrss / 1024,
    }


def load(directory: Path) -> tuple[float, float]:
    """Return processor seconds to read the history of a run: in bulk, and one observation at a time."""

    def one_by_one() -> None:
        with Store.open(directory, readonly=True) as store:
            history = History(store.space, size=store.about["size"])
            for row in store.connection.execute(f"SELECT {coding.OBSERVATION_COLUMNS} FROM observation ORDER BY id"):
                history.append(coding.observation(row))

    def seconds(read: Callable[[], object]) -> float:
        began = time.process_time()
        read()
        return time.process_time() - began

    bulk, single = lambda: History.load(directory), one_by_one
    return min(seconds(bulk) for _ in range(3)), min(seconds(single) for _ in range(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--load", action="store_true", help="only measure reading")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(report(*arguments.one)))
        return
    cost_columns = ("in bulk, s", "one by one, s") if arguments.load else COSTS
    view = Table("run", "observations", *cost_columns)
    with TemporaryDirectory() as folder:
        for name, (members, rounds) in SIZES.items():
            directory, output = Path(folder) / str(members), Path(folder) / f"{members}.html"
            write_run(directory, members, rounds)
            if arguments.load:
                view.add_row(name, f"{members * rounds:,}", *(f"{value:.2f}" for value in load(directory)))
                continue
            command = [
                sys.executable,
                "-m",
                "popbandits_experiments.speed.report_cost",
                "--one",
                str(directory),
                str(output),
            ]
            cost = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            figures = (cost["seconds"], cost["processor"], cost["megabytes"], cost["memory"])
            view.add_row(name, f"{members * rounds:,}", *(f"{value:.1f}" for value in figures))
    Console().print(view)


if __name__ == "__main__":
    main()
