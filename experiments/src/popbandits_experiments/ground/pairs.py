"""Two methods on the same seeds, by task: how often one is better, or at least as good up to evaluation noise.

And how many more of its late new configurations have a low learning rate, which no score enters.
"""

import argparse
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from scipy.stats import spearmanr

from popbandits.basics.wording import counted
from popbandits.errors import ArgumentError
from popbandits_experiments.ground.headroom import Admission
from popbandits_experiments.ground.records import Record
from popbandits_experiments.ground.statistics import FloatArray, estimate, improvement, mean, won
from popbandits_experiments.ground.suite import add_selection, arrange, label, require_some, select, showing
from popbandits_experiments.ground.tables import UNKNOWN, markdown, on_common_scale, with_interval

WITHIN = 2.0
"""Standard errors of the difference of two final scores that count as noise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pairs`."""
    parser.add_argument("method")
    parser.add_argument("baseline")
    add_selection(parser)
    parser.add_argument(
        "--best-ever", action="store_true", help="compare the best stored score of each run, not its final test"
    )


def main(options: argparse.Namespace) -> None:
    """Print a table for each space, group of tasks, size of populations and number of rounds."""
    options.methods = [options.method, options.baseline]
    if options.best_ever and options.score:
        raise ArgumentError(f"--best-ever is a score of its own, got --score {options.score} beside it")
    records = select(options)
    require_some(records, options)
    admission = Admission.asked(options)
    if words := admission.words(records):
        print(f"{words}\n")
    for one in arrange(records):
        (part,) = showing([one], "best ever" if options.best_ever else options.score)
        ours, theirs = (part.runs.get(method, {}) for method in options.methods)
        common = {task: pairs for task in ours if (pairs := _pairs(ours[task], theirs.get(task, {})))}
        if common:
            entered = [task for task in common if admission.admits(task, part.space)]
            print(f"{part.title}, {part.setting}: {label(options.method)} beside {label(options.baseline)}\n")
            print(table(common, entered, admission.tasks) + "\n")


def _pairs(ours: Mapping[int, Record], theirs: Mapping[int, Record]) -> list[tuple[Record, Record]]:
    return [(ours[seed], theirs[seed]) for seed in ours if seed in theirs]


def table(tasks: Mapping[str, Sequence[tuple[Record, Record]]], entered: Collection[str], words: str) -> str:
    """Write the shares of seeds as Markdown; their means over the tasks that enter them, and over all of these but one.

    `words` say which tasks `entered` names.
    """
    rows, level, finals = [], dict[str, float](), dict[str, tuple[FloatArray, FloatArray]]()
    lower = {task: _lower_rates(pairs) for task, pairs in tasks.items()}
    for task, pairs in tasks.items():
        a, b = (np.array([pair[side].final for pair in pairs]) for side in (0, 1))
        noise = np.array([np.hypot(x.final_error, y.final_error) for x, y in pairs])
        finals[task], level[task] = (a, b), float((a >= b - WITHIN * noise).mean())
        row = [task, str(len(pairs)), f"{won(a, b).mean():.2f}", f"{level[task]:.2f}", _rank_correlation(a, b)]
        rows.append([*row, _mean_with_interval([lower[task]])])
    for task, row in zip(tasks, rows, strict=True):
        others = [finals[other] for other in finals if other in entered and other != task]
        row.append(_with_interval(others) if others and task in entered else UNKNOWN)
    if entered:
        count = str(sum(len(tasks[task]) for task in entered))
        means = _with_interval([finals[task] for task in entered]), f"{np.mean([level[task] for task in entered]):.2f}"
        rates = _mean_with_interval([lower[task] for task in entered])
        rows.append([f"mean over {counted(len(entered), 'task')} {words}", count, *means, "", rates, ""])
    level_head = f"at least as good, within {WITHIN:g} standard errors"
    head = ["task", "pairs", "better", level_head, "rank correlation"]
    head += ["late low lr, difference", "mean without this task"]
    return markdown(head, rows)


def _rank_correlation(ours: FloatArray, theirs: FloatArray) -> str:
    """Write how much of the noise the runs of a seed share: their rank correlation over seeds."""
    if len(ours) < 3 or np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return ""
    return f"{spearmanr(ours, theirs).statistic:.2f}"


def _lower_rates(pairs: Sequence[tuple[Record, Record]]) -> FloatArray:
    """Return by how much the shares of late new configurations with a low rate differ, where both runs made some."""
    return np.array(
        [
            ours.late_low_lr / ours.late_choices - theirs.late_low_lr / theirs.late_choices
            for ours, theirs in pairs
            if ours.late_choices and theirs.late_choices
        ]
    )


def _mean_with_interval(differences: Sequence[FloatArray]) -> str:
    if not all(map(len, differences)):
        return UNKNOWN
    return with_interval(estimate(mean, differences), "{:+.2f}".format)


def _with_interval(finals: Sequence[tuple[FloatArray, FloatArray]]) -> str:
    return with_interval(improvement(finals), on_common_scale)
