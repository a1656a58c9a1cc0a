"""Comparison of runs: learning curves, one by one and by group."""

from typing import Any

import altair as alt
import numpy as np

from popbandits.reports.figures import charts
from popbandits.reports.figures.figure import Figure, Record, record, thin
from popbandits.reports.stats import standard_error
from popbandits.reports.tables import RunsByTask, methods_of

MAX_ROUNDS = 400
"""Maximum rounds drawn of a curve."""


def curves(tasks: RunsByTask) -> Figure:
    """Draw the best member of each round: each run, and mean ± 1 standard error of a method; a panel for each task."""
    methods = methods_of(tasks)
    data: dict[str, list[Record]] = {}
    panels, alone = [], len(tasks) == 1
    for number, (task, groups) in enumerate(tasks.items()):
        data[f"task{number}"], data[f"each{number}"] = [], []
        for method, runs in groups.items():
            # No further than the shortest run: with fewer runs a mean may jump.
            best = np.array([run.best_by_round[: min(len(one.best_by_round) for one in runs)] for run in runs]).T
            data[f"task{number}"] += [
                _mean_record(values, method=method, round=int(t))
                for t in thin(np.arange(len(best)), MAX_ROUNDS)
                if (values := best[t][np.isfinite(best[t])].tolist())
            ]
            data[f"each{number}"] += [
                record(method=method, run=run.name, line=i, round=int(t), mean=float(run.best_by_round[t]))
                for i, run in enumerate(runs)  # Folders elsewhere may have the same name.
                for t in thin(np.arange(len(run.best_by_round)), MAX_ROUNDS // len(runs) + 2)
            ]
        last = max(run.horizon for runs in groups.values() for run in runs)
        panel = _curves(number, methods, last).properties(width=760 if alone else 355, height=300 if alone else 200)
        panels.append(panel if alone else panel.properties(title=charts.panel_title(task)))
    caption = (
        "The best member of each round: mean ± 1 standard error over the runs of a group, as far as all of them went, "
        "and each run as a thin line."
    )
    chart = alt.concat(*panels, columns=1 if alone else 2, spacing=24)
    return Figure("comparison", "Learning curves", caption, chart, data)


def _mean_record(values: list[float], **known: object) -> Record:
    mean, error = float(np.mean(values)), float(np.nan_to_num(standard_error(values)))
    return record(**known, mean=mean, low=mean - error, high=mean + error, seeds=len(values))


def _curves(number: int, methods: list[str], last: int) -> Any:
    base, each = (alt.Chart(alt.NamedData(f"{source}{number}")) for source in ("task", "each"))
    colour = charts.colour("method", methods)
    x, y = charts.rounds_axis(last), charts.score_axis("mean", "score of the best member")
    tip = charts.tooltips(
        ("method", "group"),
        ("round", "round", ""),
        ("mean", "mean", ".5~g"),
        ("low", "from", ".5~g"),
        ("high", "to", ".5~g"),
        ("seeds", "runs", ""),
    )
    band = base.mark_area(opacity=0.2).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour)
    thin_lines = each.mark_line(strokeWidth=1, opacity=0.6).encode(x=x, y=y, color=colour, detail="line:N")
    return alt.layer(band, thin_lines, base.mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour, tooltip=tip))
