"""Stored records arranged by method, task and seed, for tables and figures."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from popbandits.basics.wording import counted
from popbandits.errors import ArgumentError
from popbandits_experiments.ground.deciding import ALONE, DEFAULTS
from popbandits_experiments.ground.headroom import add_admission
from popbandits_experiments.ground.methods import METHODS
from popbandits_experiments.ground.records import (
    RESULTS,
    SCORES,
    SPACES,
    SPLITS,
    Group,
    Record,
    Score,
    Space,
    read,
    seed_range,
)
from popbandits_experiments.ground.scales import scale_of
from popbandits_experiments.ground.statistics import FloatArray

LABELS = {DEFAULTS: "Defaults, no tuning", ALONE: "Defaults, one member's budget"} | {
    name: method.label for name, method in METHODS.items()
}
"""Labels of methods in display order; other methods follow under their own names."""
BASELINES = ("pbt", "random")
IN_WORDS = {"pbt": "PBT", "random": "random search"}
SELECTED = {"tasks": "task", "spaces": "space", "methods": "method", "members": "population", "rounds": "rounds"}
"""Options that select records, and the field that each of them names."""
Shown = Score | Literal["best ever"]
"""Score that a table shows; the best of a record's curve is a noisy substitute for `kept`, for older records."""
SHOWN: dict[Shown, str] = {"kept": "kept scores", "final": "final scores", "best ever": "best scores ever"}
GROUP_NAMES: dict[Group, str] = {"device": "tasks on the device", "envpool": "tasks through EnvPool"}


def label(method: str) -> str:
    """Return a method's display name."""
    return LABELS.get(method, method)


def final(record: Record) -> float:
    """Return the score in the task's own units."""
    return record.final


def normalised(record: Record) -> float:
    """Return the score on the common scale: 0 is random, 1 is solved."""
    return scale_of(record.task).normalise(record.final)


def grounded(record: Record) -> float:
    """Return 1 for a population that never took off, else 0."""
    return float(record.final < scale_of(record.task).take_off)


def _with_score(record: Record, score: Shown) -> Record:
    """Return a record with another score as `final`."""
    if score == "kept":
        assert record.kept is not None
        return replace(record, final=record.kept, final_error=record.kept_error or 0.0)
    return replace(record, final=max(record.curve)) if score == "best ever" else record


@dataclass(frozen=True)
class Comparison:
    """Methods on the tasks of one group, with one space, one size of populations and one number of rounds."""

    space: Space
    group: Group
    members: int
    rounds: int
    runs: Mapping[str, Mapping[str, Mapping[int, Record]]]
    """Records by method, task and seed. Methods may lack tasks or seeds."""
    score: Shown = "final"
    """Score that the records have as `final`; `showing` chooses it."""

    @property
    def title(self) -> str:
        """Display name of the space and the group."""
        return f"{self.space.capitalize()} spaces, {GROUP_NAMES[self.group]}"

    @property
    def setting(self) -> str:
        """Budget and score, in words."""
        return f"{self.budget}, {SHOWN[self.score]}"

    @property
    def budget(self) -> str:
        """Number of members and rounds, in words."""
        return f"{counted(self.members, 'member')}, {counted(self.rounds, 'round')}"

    @property
    def place(self) -> tuple[Space, Group, int]:
        """What comparisons have in common that differ only in the number of rounds: space, group and members."""
        return self.space, self.group, self.members

    @property
    def methods(self) -> list[str]:
        """Names of the methods, in display order."""
        return list(self.runs)

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks that any method was run on."""
        return sorted({task for tasks in self.runs.values() for task in tasks})

    @property
    def records(self) -> list[Record]:
        """Every record, by method, task and seed."""
        return [record for tasks in self.runs.values() for seeds in tasks.values() for record in seeds.values()]

    def on(self, task: str) -> "Comparison":
        """Return the part of the comparison on one task."""
        runs = {method: {task: tasks[task]} for method, tasks in self.runs.items() if task in tasks}
        return replace(self, runs=runs)

    def without(self, task: str) -> "Comparison":
        """Return the comparison on all tasks but one."""
        rest = {
            method: {name: runs for name, runs in tasks.items() if name != task} for method, tasks in self.runs.items()
        }
        return replace(self, runs={method: tasks for method, tasks in rest.items() if tasks})

    def values(self, method: str, of: Callable[[Record], float]) -> list[FloatArray]:
        """Return a number of each run of a method: an array for each task."""
        return [np.array([of(record) for record in seeds.values()]) for seeds in self.runs[method].values()]

    def pairs(self, method: str, baseline: str) -> list[tuple[FloatArray, FloatArray]]:
        """Return scores of a method and a baseline on the seeds that both were run with, for each such task."""
        found = []
        for task, ours in self.runs[method].items():
            theirs = self.runs.get(baseline, {}).get(task, {})
            if common := [seed for seed in ours if seed in theirs]:
                a, b = (np.array([side[seed].final for seed in common]) for side in (ours, theirs))
                found.append((a, b))
        return found

    def late_share(self, method: str, what: Callable[[Record], int]) -> float:
        """Return the share of a method's late choices that `what` counts: the mean over tasks, NaN if it made none."""
        shares = []
        for seeds in self.runs[method].values():
            if choices := sum(record.late_choices for record in seeds.values()):
                shares.append(sum(map(what, seeds.values())) / choices)
        return float(np.mean(shares)) if shares else float("nan")


def showing(parts: Sequence[Comparison], asked: Shown | None = None) -> list[Comparison]:
    """Return the comparisons of one table, as arranged, with the score asked for as `final`.

    By default that is `kept` if every record has it: what a user gets is what is scored.
    """
    lacks = any(record.kept is None for part in parts for record in part.records)
    score: Shown = asked or ("final" if lacks else "kept")
    found = []
    for part in parts:
        (shown,) = arrange([_with_score(record, score) for record in part.records])
        found.append(replace(shown, score=score))
    return found


def arrange(records: Sequence[Record]) -> list[Comparison]:
    """Group records into comparisons: wide before narrow, the device's before EnvPool's, few members, many rounds."""
    order = [*LABELS, *sorted({record.method for record in records} - set(LABELS))]
    ranked = sorted(
        records,
        key=lambda r: (SPACES.index(r.space), r.group, r.population, -r.rounds, order.index(r.method), r.task, r.seed),
    )
    found: dict[tuple[Space, Group, int, int], dict[str, dict[str, dict[int, Record]]]] = {}
    for record in ranked:
        methods = found.setdefault((record.space, record.group, record.population, record.rounds), {})
        methods.setdefault(record.method, {}).setdefault(record.task, {})[record.seed] = record
    return [Comparison(*where, runs) for where, runs in found.items()]


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that select stored records."""
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results (%(default)s)")
    parser.add_argument("--split", choices=SPLITS, default="confirmation", help="seeds to show (%(default)s)")
    for name in SELECTED:
        kind = int if name in ("rounds", "members") else str
        parser.add_argument(f"--{name}", nargs="+", type=kind, help=f"only these {name}")
    add_admission(parser)
    parser.add_argument(
        "--score",
        choices=SCORES,
        help="kept: the checkpoint that `tune` hands over; final: the member with the best last score "
        "(kept where every record of a table has it)",
    )
    parser.add_argument("--seeds", help="only these seeds: the first and one past the last, as in 2000-2064")


def select(options: argparse.Namespace, split: str | None = None) -> list[Record]:
    """Return the stored records that the options select, from another split if one is given."""
    split = split or options.split
    stored = read(options.results)
    if options.seeds:
        seeds = seed_range(options.seeds)
        stored = [record for record in stored if record.seed in seeds]
    wanted = {field: set(names) for name, field in SELECTED.items() if (names := getattr(options, name))}
    for name, field in SELECTED.items():
        known = {getattr(record, field) for record in stored}
        if unknown := wanted.get(field, set()) - known:
            raise ArgumentError(
                f"--{name} must be stored, got {', '.join(map(str, sorted(unknown)))}; "
                f"stored: {', '.join(map(str, sorted(known)))}"
            )
    return [
        record
        for record in stored
        if record.split == split and all(getattr(record, field) in names for field, names in wanted.items())
    ]


def require_some(records: Sequence[Record], options: argparse.Namespace) -> None:
    """Raise ArgumentError if the options select nothing, or a score that some records lack."""
    if not records:
        stored = [record.split for record in read(options.results)]
        there = ", ".join(f"{counted(stored.count(split), f'{split} run')}" for split in SPLITS)
        raise ArgumentError(f"no stored run is what was asked for with --split {options.split}; stored: {there}")
    without = [record for record in records if record.kept is None]
    if options.score == "kept" and without:
        key = without[0].key
        raise ArgumentError(
            f"--score kept must be stored with every run, got {len(without)} of {len(records)} without it, such as "
            f"{key.method} on {key.task}, {key.space} space, seed {key.seed}"
        )
