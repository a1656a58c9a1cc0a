"""The page that compares several runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape

import numpy as np

from popbandits.basics.arithmetic import mean
from popbandits.basics.wording import counted, number
from popbandits.errors import ArgumentError
from popbandits.reports.figures.comparison import curves
from popbandits.reports.figures.effects import effects, effects_figure
from popbandits.reports.figures.figure import Figure
from popbandits.reports.figures.schedules import schedules
from popbandits.reports.html import cards, figure, findings, markup, page, table
from popbandits.reports.run import Run
from popbandits.reports.stats import deviation
from popbandits.reports.status import rounds_done
from popbandits.reports.tables import RunsByTask, group_runs, methods_of, score_tables
from popbandits.reports.words import never_explored, unclear_effects, what_mattered


@np.errstate(over="ignore", invalid="ignore")  # Scores may be near 1e308.
def comparison_page(runs: Sequence[Run], libraries: Callable[[], str], by: str = "method") -> tuple[str, list[Figure]]:
    """Return the page that compares several runs, grouped as `tables.GROUPINGS` says, and its figures."""
    begun = [run for run in runs if len(run.history)]
    if not begun:
        raise ArgumentError("runs are compared by their observations, got runs without any; wait for a first interval")
    tasks = group_runs(begun, by)
    drawn = [curves(tasks)]
    compared = f"By {by}"
    sections = {"In short": _compared(runs, tasks), compared: "".join(map(figure, drawn))}
    sections[compared] += "".join(_score_table(*one, _better(tasks)) for one in score_tables(tasks).items())
    for index, (task, groups) in enumerate(_tuned(group_runs(begun)).items()):
        members = [run for group in groups.values() for run in group]
        found = effects(members)
        made = [schedules(groups), effects_figure(found)]
        own = [_number(one, index) for one in made if one is not None]
        words = findings(what_mattered(found), unclear_effects(members, found), never_explored(members))
        sections[f"What was tried: {task}" if len(tasks) > 1 else "What was tried"] = words + "".join(map(figure, own))
        drawn += own
    sections["The runs"] = _runs(runs, tasks)
    return page(f"{len(runs)} runs compared", " · ".join(methods_of(tasks)), sections, drawn, libraries), drawn


def _tuned(tasks: RunsByTask) -> RunsByTask:
    """Leave out the runs in which nothing was tuned."""
    left = {task: {m: g for m, g in groups.items() if not g[0].space.fixed} for task, groups in tasks.items()}
    return {task: groups for task, groups in left.items() if groups}


def _number(one: Figure, index: int) -> Figure:
    """Number a figure's name, which names its files, by task."""
    return replace(one, name=f"{one.name}-{index + 1}") if index else one


def _compared(runs: Sequence[Run], tasks: RunsByTask) -> str:
    facts = {"runs": str(len(runs)), "groups": str(len(methods_of(tasks))), "tasks": str(len(tasks))}
    facts["failed intervals"] = f"{sum(run.status.failures for run in runs):,}"
    sentences = []
    for task, groups in tasks.items():
        ends = {m: [run.final.score for run in members if run.final] for m, members in groups.items()}
        means = {m: mean(scores) for m, scores in ends.items() if scores}
        if means:
            first = max(means, key=lambda m: groups[m][0].sign * means[m])
            where = f" on {task}" if len(tasks) > 1 else ""
            count = len(ends[first])
            told = f"{number(means[first])} over {counted(count, 'run')}."
            if len(means) == 1:
                sentences.append(f"Nothing is compared with {first}{where}, whose mean is {told}")
                continue
            one = " One run decides nothing." if count == 1 else ""
            sentences.append(f"{first} has the best mean{where}: {told}{one}")
    unfinished = [run.name for run in runs if run.status.state != "finished"]
    if unfinished:
        sentences.append(
            f"{counted(len(unfinished), 'run is', 'runs are')} not finished: {', '.join(unfinished[:10])}."
        )
    return cards(facts) + "".join(markup("p", escape(sentence)) for sentence in sentences)


def _better(tasks: RunsByTask) -> str:
    """Say whether more or less is better, and where, if tasks differ in that."""
    less = [task for task, groups in tasks.items() if next(iter(groups.values()))[0].sign < 0]
    if less and len(less) < len(tasks):
        return f"more is better, but less on {', '.join(less)}"
    return "less is better" if less else "more is better"


def _score_table(measure: str, rows: Mapping[str, Mapping[str, Sequence[float]]], better: str) -> str:
    methods = methods_of(rows)
    note = f"{measure} of the member that is best at the end: mean ± standard deviation (number of runs); {better}."
    return table(
        note, ["", *methods], [[task, *(_score(cells.get(m)) for m in methods)] for task, cells in rows.items()]
    )


def _score(values: Sequence[float] | None) -> str:
    if not values:
        return "–"
    spread = f" ± {number(deviation(values), 2)}" if len(values) > 1 else ""
    return f"{number(mean(values))}{spread} ({len(values)})"


def _runs(runs: Sequence[Run], tasks: RunsByTask) -> str:
    named = {id(run): (task, m) for task, groups in tasks.items() for m, group in groups.items() for run in group}
    rows = []
    for run in runs:
        task, method = named.get(id(run), ("–", run.method))
        final, how = run.final, run.status
        rounds = rounds_done(how.round, how.rounds, "/")
        scores = number(final.score if final else None), number(how.best)
        seed = run.about.get("seed", "–")
        rows.append([str(run.directory), task, method, seed, how.state, rounds, *scores, how.failures])
    head = ["run", "task", "method", "seed", "state", "rounds", "final score", "best score", "failed"]
    return table("For details of one run, make its own report: popbandits report RUN.", head, rows, numbers=False)
