"""Main effects of a sweep: how each setting changes the probability of beating PBT, averaged over all others.

A sweep draws every setting of a method at random, independently, so that one run of the benchmark serves all questions
at once (a random factorial design). A least-squares fit of the share of paired seeds won, by variant, on indicators of
the settings gives each one's effect and its standard error. Effects are assumed to add up: check pairs before
trusting two large ones together.
"""

import argparse
import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from popbandits.errors import ArgumentError
from popbandits_experiments.ground.statistics import FloatArray, won
from popbandits_experiments.ground.tables import markdown

BASELINE = "pbt"
LEFT_OUT = ("MountainCarContinuous",)
"""Tasks of the stored sweeps that say nothing about tuning: environments began anew with every interval then, whose 64
steps are too few to reach this goal, so that no step of training was ever rewarded."""
FIXED = ("task", "seed", "variant", "final")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the table."""
    parser.add_argument("sweep", type=Path, nargs="+", help="CSV files with task, seed, variant, final and settings")
    parser.add_argument("--variants", action="store_true", help="print the variants themselves, not the effects")


def main(options: argparse.Namespace) -> None:
    """Print a table for each sweep."""
    for path in options.sweep:
        print(f"{path.stem}:\n\n{(variants if options.variants else table)(read(path))}\n")


@dataclass(frozen=True)
class Sweep:
    """Shares of paired seeds won against the baseline."""

    tasks: list[str]
    settings: dict[str, dict[str, str]]
    """Settings by variant and name."""
    won: FloatArray
    """(variants, tasks)"""


def read(path: Path) -> Sweep:
    """Read a sweep without the tasks that are left out; rows without settings are baselines."""
    finals: dict[tuple[str, str, str], float] = {}
    settings: dict[str, dict[str, str]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["task"].partition(",")[0] in LEFT_OUT:  # A sweep names a space after its task.
                continue
            finals[row["variant"], row["task"], row["seed"]] = float(row["final"])
            given = {name: value for name, value in row.items() if name not in FIXED}
            if all(given.values()):
                settings[row["variant"]] = given
    tasks = sorted({task for _, task, _ in finals})
    seeds = defaultdict(list)
    for variant, task, seed in finals:
        if variant == BASELINE:
            seeds[task].append(seed)
    if not settings or set(seeds) != set(tasks):
        raise ArgumentError(f"a sweep needs variants with settings, and {BASELINE} on every task, got {path}")

    def scores(variant: str, task: str) -> FloatArray:
        return np.array([finals[variant, task, seed] for seed in seeds[task]])

    shares = [[won(scores(variant, task), scores(BASELINE, task)).mean() for task in tasks] for variant in settings]
    return Sweep(tasks, settings, np.array(shares))


def effects(sweep: Sweep) -> dict[tuple[str, str, str], tuple[float, float, FloatArray]]:
    """Return the effect of each level against its setting's first: on the mean, its standard error, and by task."""
    variants = list(sweep.settings.values())
    columns, names = [np.ones(len(variants))], []
    for name in variants[0]:
        levels = sorted({v[name] for v in variants}, key=_order)
        for level in levels[1:]:
            names.append((name, level, levels[0]))
            columns.append(np.array([float(v[name] == level) for v in variants]))
    x = np.array(columns).T
    if np.linalg.matrix_rank(x) < x.shape[1]:
        raise ArgumentError("effects need settings that vary independently, got a sweep without; use --variants")
    inverse = np.linalg.inv(x.T @ x)
    by_task = inverse @ x.T @ sweep.won
    mean = sweep.won.mean(axis=1)
    fitted = inverse @ x.T @ mean
    variance = ((mean - x @ fitted) ** 2).sum() / (len(mean) - x.shape[1])
    error = np.sqrt(variance * np.diag(inverse))
    return {name: (fitted[i], error[i], by_task[i]) for i, name in enumerate(names, start=1)}


def _order(level: str) -> tuple[float, str]:
    """Sort numbers by value; then words, those that mean no change first."""
    try:
        return float(level), ""
    except ValueError:
        return float("inf"), f"{level not in ('none', 'never', 'no')} {level}"


def table(sweep: Sweep) -> str:
    """Write the effects as Markdown."""
    head = ["setting", "value", "beside", "effect on better than PBT", *sweep.tasks]
    rows = []
    for (name, level, beside), (effect, error, by_task) in effects(sweep).items():
        shown = f"{effect:+.3f} ± {error:.3f}"
        marked = f"**{shown}**" if abs(effect) > 2 * error else shown
        rows.append([name, level, beside, marked, *(f"{value:+.2f}" for value in by_task)])
    return markdown(head, rows)


def variants(sweep: Sweep) -> str:
    """Write the variants as Markdown, the best first, with the settings that differ between them."""
    given = list(sweep.settings.values())
    names = [name for name in given[0] if len({each[name] for each in given}) > 1]
    order = np.argsort(-sweep.won.mean(axis=1))
    rows = [
        [*(given[i][name] for name in names), f"{sweep.won[i].mean():.2f}", *(f"{share:.2f}" for share in sweep.won[i])]
        for i in order.tolist()
    ]
    return markdown([*names, "better than PBT", *sweep.tasks], rows)
