"""Main effects of a sweep: how each setting changes the probability of beating PBT, averaged over all others.

A sweep draws every setting of a method at random, independently, so that one run of the benchmark serves all questions
at once (a random factorial design). A least-squares fit of the share of paired seeds won, by variant, on indicators of
the settings gives each one's effect and its standard error. Means over tasks are over those with headroom. Effects are
assumed to add up: check pairs before trusting two large ones together.
"""

import argparse
import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from popbandits.basics.wording import counted
from popbandits.errors import ArgumentError
from popbandits_experiments.ground.headroom import Admission, add_admission
from popbandits_experiments.ground.records import SPACES, Space
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
    add_admission(parser)


def main(options: argparse.Namespace) -> None:
    """Print a table for each sweep."""
    admission = Admission.asked(options)
    for path in options.sweep:
        sweep = read(path, admission)
        parts = [f"{path.stem}, means over {counted(sum(sweep.entered), 'task')} {admission.tasks}:"]
        parts += [words] if (words := admission.note(map(place, sweep.tasks))) else []
        print("\n\n".join([*parts, (variants if options.variants else table)(sweep)]) + "\n")


@dataclass(frozen=True)
class Sweep:
    """Shares of paired seeds won against the baseline."""

    tasks: list[str]
    settings: dict[str, dict[str, str]]
    """Settings by variant and name."""
    won: FloatArray
    """(variants, tasks)"""
    entered: list[bool]
    """Tasks that enter means."""

    @property
    def mean(self) -> FloatArray:
        """(variants,) mean share over the tasks that enter means."""
        made: FloatArray = self.won[:, self.entered].mean(axis=1)
        return made


def place(task: str) -> tuple[str, Space]:
    """Split the name of a task in a sweep, which a space follows if it is not wide.

    >>> place("Acrobot, shifted"), place("Digits")
    (('Acrobot', 'shifted'), ('Digits', 'wide'))
    """
    name, _, space = task.partition(", ")
    return name, next((known for known in SPACES if known == space), "wide")


def read(path: Path, admission: Admission) -> Sweep:
    """Read a sweep without the tasks that are left out; rows without settings are baselines."""
    finals: dict[tuple[str, str, str], float] = {}
    settings: dict[str, dict[str, str]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if place(row["task"])[0] in LEFT_OUT:
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
    entered = [admission.admits(*place(task)) for task in tasks]
    if not any(entered):
        raise ArgumentError(f"effects are means over tasks with headroom, got none in {path}; add --all-tasks")
    return Sweep(tasks, settings, np.array(shares), entered)


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
    mean = sweep.mean
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
    order = np.argsort(-sweep.mean)
    rows = [
        [*(given[i][name] for name in names), f"{sweep.mean[i]:.2f}", *(f"{share:.2f}" for share in sweep.won[i])]
        for i in order.tolist()
    ]
    return markdown([*names, "better than PBT", *sweep.tasks], rows)
