"""What stored runs on Procgen learnt, on the way: `python -m benchmarks.procgen_curves`.

First every run of `results/procgen`: the mean raw return of the last 100 training episodes (of a population, its best
member's), and behind it that of the 100 test episodes where there are some. Then `results/precision`, the same runs
with convolutions in bfloat16 and in float32: mean and standard deviation over the seeds as far as all of them came, and
p of Welch's t-test. Nothing is trained here; docs/procgen.md says how these runs were made.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from popbandits.experiments.procgen import short
from popbandits.history import Observation
from popbandits.reports import published
from popbandits.reports.procgen import Trial, trials
from popbandits.reports.stats import welch

RESULTS = Path(__file__).with_name("results")


def best_of_round(trial: Trial, round_: int) -> Observation | None:
    """The member with the best score after a round that all have finished."""
    found = [trial.run.history.find((member, round_)) for member in range(trial.population)]
    told = [observation for observation in found if observation is not None]
    return max(told, key=lambda o: o.score) if len(told) == trial.population else None


def curves(given: Sequence[Trial], every: int) -> Table:
    """A column for each run, a row for each `every` steps, and the published returns after 25M."""
    table = Table("steps a member", box=box.MARKDOWN)
    for one in given:
        game, seed = one.settings["game"], one.run.about["seed"]
        table.add_column(f"{one.method}, {game}, seed {seed}", justify="right")
    for steps in range(every, max(one.steps for one in given) + 1, every):
        found = [best_of_round(one, steps // one.settings["interval"] - 1) for one in given]
        table.add_row(short(steps), *map(_said, found))
    last = []
    for one in given:
        known = {levels: published.RETURNS[levels].get(one.settings["game"], {}) for levels in ("train", "test")}
        figures = [
            f"{{:.1f}} ± {{:.1f}} {levels}".format(*known[levels][one.method])
            for levels in known
            if one.method in known[levels]
        ]
        last.append(", ".join(figures) or "–")
    table.add_row("published, 25M", *last)
    return table


def _said(observation: Observation | None) -> str:
    if observation is None:
        return ""
    test = observation.metrics.get("test_return")
    return f"{observation.score:.1f}" + ("" if test is None else f" (test {test:.1f})")


def precisions(given: Sequence[Trial]) -> Table:
    """A row for each interval that all runs have."""
    groups: dict[str, list[Trial]] = {}
    for one in given:
        groups.setdefault(one.settings["precision"], []).append(one)
    (first, some), (second, others) = sorted(groups.items())
    table = Table("steps", first, second, "p", box=box.MARKDOWN)
    for round_ in range(min(len(one.run.history) for one in given)):
        a, b = ([one.run.history[round_].score for one in group] for group in (some, others))
        said = (f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}, {len(scores)} seeds" for scores in (a, b))
        table.add_row(short((round_ + 1) * given[0].settings["interval"]), *said, f"{welch(a, b):.2f}")
    return table


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--every", type=int, default=2_500_000, help="steps between two rows of the first table")
    options = parser.parse_args(arguments)
    console = Console(width=200)
    console.print(curves(trials([options.results / "procgen"]), options.every))
    console.print(precisions(trials([options.results / "precision"])))


if __name__ == "__main__":
    main()
