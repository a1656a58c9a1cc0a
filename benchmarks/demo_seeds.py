"""The demo over seeds, compared to PBT, random search and the usual settings: `python -m benchmarks.demo_seeds`.

The first three train the same number of members and rounds; the usual settings train one agent. The best checkpoint of
each run plays 256 fresh episodes, with the same starts for all runs of a seed; the number is their mean return.
"""

import argparse
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from popbandits import PBT, PatientPBT, RandomSearch, tune
from popbandits.rl.demo import DEFAULTS, POPULATION, ROUNDS, evaluate, make_agent, space

RUNS: dict[str, tuple[Any, Any, int]] = {
    "tuned": (space(), PatientPBT(), POPULATION),
    "PBT": (space(), PBT(), POPULATION),
    "random search": (space(), RandomSearch(), POPULATION),
    "usual settings": (DEFAULTS, RandomSearch(), 1),  # There is nothing to search.
}


def play(name: str, seed: int, workers: int | None) -> float:
    what, method, members = RUNS[name]
    with TemporaryDirectory() as folder:
        result = tune(
            make_agent,
            what,
            method,
            population=members,
            rounds=ROUNDS,
            seed=seed,
            directory=Path(folder) / "run",
            engine="processes" if members > 1 else "in-process",
            workers=workers if members > 1 else None,
            progress=False,
        )
        return evaluate(result.checkpoint, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo_seeds", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0 to N - 1")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), metavar="RUN", help="runs to play")
    parser.add_argument("--workers", type=int, help="members that train at a time; one for each core if left out")
    arguments = parser.parse_args()
    scores: dict[str, list[float]] = {name: [] for name in arguments.runs}
    start = time.perf_counter()
    for seed in range(arguments.seeds):
        for name in scores:
            scores[name].append(play(name, seed, arguments.workers))
        print(f"seed {seed}:", *(f"{name} {values[-1]:.0f}" for name, values in scores.items()), flush=True)
    minutes = (time.perf_counter() - start) / 60
    table = Table(title=f"Mean return: {POPULATION} members, {ROUNDS} rounds, {minutes:.0f} minutes in all")
    for heading in ("", "median", "mean", "worst", "best", "tuned is better"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, values in scores.items():
        numbers = [f"{f(values):.0f}" for f in (statistics.median, statistics.mean, min, max)]
        won = [tuned > value for tuned, value in zip(scores.get("tuned", []), values, strict=False)]
        table.add_row(name, *numbers, f"{sum(won)} of {len(won)} seeds" if won and name != "tuned" else "")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
