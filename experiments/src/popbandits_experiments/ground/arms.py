"""Print every method beside a baseline on the same seeds, task by task: scores, differences and cost."""

import argparse
from collections.abc import Sequence

import numpy as np

from popbandits.errors import ArgumentError
from popbandits_experiments.ground.records import Record
from popbandits_experiments.ground.statistics import FloatArray, estimate, improvement, mean
from popbandits_experiments.ground.suite import (
    Comparison,
    add_selection,
    arrange,
    final,
    grounded,
    label,
    normalised,
    require_some,
    select,
    showing,
)
from popbandits_experiments.ground.tables import (
    Of,
    Write,
    in_own_units,
    markdown,
    marked,
    on_common_scale,
    share,
    with_interval,
)

Pairs = Sequence[tuple[Record, Record]]
"""Records of a method and of the baseline with the same seed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `arms`."""
    parser.add_argument("--baseline", default="pbt", help="method that the others are compared with (%(default)s)")
    add_selection(parser)


def main(options: argparse.Namespace) -> None:
    """Print a table for each space, group of tasks, size of populations and number of rounds."""
    records = select(options)
    require_some(records, options)
    if options.baseline not in {record.method for record in records}:
        raise ArgumentError(f"--baseline must be among the selected methods, got {options.baseline!r}")
    for one in arrange(records):
        (part,) = showing([one], options.score)
        print(f"{part.title}, {part.setting}\n\n{table(part, options.baseline)}\n")


def table(part: Comparison, baseline: str) -> str:
    """Build a table with a row for each task and method; with several tasks, a row for the mean over them.

    The mean is on the common scale: 0 is random, 1 is solved.
    """
    name = label(baseline)
    head = ["task", "method", "mean", f"mean, {name}", "difference [95%]", f"better than {name}"]
    head += ["never took off", f"never took off, {name}", "device time"]
    rows = []
    for method in part.methods:
        theirs = part.runs.get(baseline, {})
        found = {task: _pairs(part, method, baseline, task) for task in part.runs[method] if task in theirs}
        found = {task: pairs for task, pairs in found.items() if pairs and method != baseline}
        rows += [[task, label(method), *_row([pairs], final, in_own_units)] for task, pairs in found.items()]
        if len(found) > 1:
            several = list(found.values())
            rows.append([f"mean over {len(found)} tasks", label(method), *_row(several, normalised, on_common_scale)])
    return markdown(head, rows)


def _pairs(part: Comparison, method: str, baseline: str, task: str) -> Pairs:
    ours, theirs = part.runs[method][task], part.runs[baseline][task]
    return [(record, theirs[seed]) for seed, record in ours.items() if seed in theirs]


def _row(tasks: Sequence[Pairs], of: Of, write: Write) -> list[str]:
    """Write means over tasks of a score, of its differences to the baseline and of their cost."""

    def values(of: Of, side: int) -> list[FloatArray]:
        return [np.array([of(pair[side]) for pair in pairs]) for pairs in tasks]

    a, b = values(of, 0), values(of, 1)
    apart = estimate(mean, [ours - theirs for ours, theirs in zip(a, b, strict=True)])
    # A method's time over the baseline's, since tasks last differently long.
    times = [ours.sum() / theirs.sum() for ours, theirs in zip(values(_seconds, 0), values(_seconds, 1), strict=True)]
    return [
        *(write(estimate(mean, side).value) for side in (a, b)),
        with_interval(apart, write),
        marked(improvement(list(zip(a, b, strict=True)))),
        *(share(estimate(mean, values(grounded, side)).value) for side in (0, 1)),
        f"{np.mean(times):.2f} x",
    ]


def _seconds(record: Record) -> float:
    return record.seconds
