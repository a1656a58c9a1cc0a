"""The demo over seeds, compared to its controls: `python -m popbandits_experiments.speed.demo_seeds`.

Populations of the same size and rounds, whose first member begins with the usual settings, one whose members all keep
these, and one agent that keeps them. The best checkpoint of each run plays 256 fresh episodes, with the same starts for
all runs of a seed; the number is their mean return. Results are stored, a line for each run, by the machine's kind: a
seed gives other numbers on another. What is stored for this kind is not played again. The demo had 30 rounds once, and
other methods: results of that time are stored too, and not shown.
"""

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from platform import machine
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from popbandits import NearPBT, RandomSearch, tune
from popbandits.rl.demo import DEFAULTS, EVALUATIONS, POPULATION, ROUNDS, evaluate, make_agent, space
from popbandits_experiments import RESULTS
from popbandits_experiments.ground.records import seed_range
from popbandits_experiments.json_lines import append_lines
from popbandits_experiments.paper.parallel import in_processes

STORED = RESULTS / "demo.jsonl"
RUNS: dict[str, tuple[Any, Any, int]] = {
    "tuned": (space(), NearPBT(), POPULATION),
    "random search": (space(), RandomSearch(), POPULATION),
    "usual settings, all members": (DEFAULTS, RandomSearch(), POPULATION),  # There is nothing to search.
    "usual settings": (DEFAULTS, RandomSearch(), 1),
}


def play(name: str, seed: int) -> float:
    """Play one run, its members one after another; the engine makes no difference to the result."""
    what, method, members = RUNS[name]
    with TemporaryDirectory() as folder:
        result = tune(
            make_agent,
            what,
            method,
            population=members,
            rounds=ROUNDS,
            seed=seed,
            start=[DEFAULTS],
            directory=Path(folder) / "run",
            evaluations=EVALUATIONS,
            progress=False,
        )
        return evaluate(result.checkpoint, seed=seed)


def read() -> dict[str, dict[tuple[str, int], float]]:
    """Return the stored returns by kind of machine, then by run and seed."""
    found: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
    for row in map(json.loads, STORED.read_text().splitlines()):
        if row["rounds"] == ROUNDS:
            found[row["machine"]][row["run"], row["seed"]] = row["return"]
    return found


def make_table(kind: str, returns: dict[tuple[str, int], float]) -> Table:
    """Make a table of the runs over their seeds, and on how many the tuned one is better."""
    headings = ("", "seeds", "median", "mean", "worst", "best", "tuned is better")
    table = Table(*headings, title=f"Mean return, {kind}: {POPULATION} members, {ROUNDS} rounds")
    for name in RUNS:
        found = {seed: value for (run, seed), value in returns.items() if run == name}
        if found:
            numbers = [f"{f(found.values()):.0f}" for f in (statistics.median, statistics.mean, min, max)]
            won = [returns["tuned", seed] > value for seed, value in found.items() if ("tuned", seed) in returns]
            table.add_row(name, str(len(found)), *numbers, f"{sum(won)} of {len(won)} seeds" if name != "tuned" else "")
    return table


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m popbandits_experiments.speed.demo_seeds", description=__doc__)
    parser.add_argument("--seeds", type=seed_range, default="0-10", help="first and one past the last (0-10)")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), metavar="RUN", help="runs to play")
    parser.add_argument("--at-once", type=int, help="runs at a time; one a core if left out")
    parser.add_argument("--table", action="store_true", help="print the tables of stored runs, without playing others")
    arguments = parser.parse_args(argv)
    known, seeds = read()[machine()], () if arguments.table else arguments.seeds
    jobs = [(name, seed) for seed in seeds for name in arguments.runs if (name, seed) not in known]

    def store(index: int, value: float) -> None:
        name, seed = jobs[index]
        row = {"run": name, "seed": seed, "rounds": ROUNDS, "return": round(value, 2), "machine": machine()}
        append_lines(STORED, [row])
        print(f"seed {seed}: {name} {value:.0f}", flush=True)

    in_processes([partial(play, *job) for job in jobs], arguments.at_once, store)
    for kind, returns in read().items():
        Console(width=110).print(make_table(kind, returns))


if __name__ == "__main__":
    main()
