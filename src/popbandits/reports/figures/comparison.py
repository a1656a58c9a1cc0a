"""Comparison of runs: learning curves and final scores, one by one and by group."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np

from popbandits.reports.figures import charts
from popbandits.reports.figures.figure import Figure, Record, record, thin
from popbandits.reports.stats import standard_error
from popbandits.reports.tables import RunsByTask, methods_of

MAX_ROUNDS = 400
"""Maximum rounds drawn of a curve."""
MEAN_TIP = (("mean", "mean", ".5~g"), ("low", "from", ".5~g"), ("high", "to", ".5~g"), ("seeds", "runs", ""))


def curves(tasks: RunsByTask) -> Figure:
    """Draw the best member of each round: each run, and mean ± 1 standard error of a method; a panel for each task."""
    methods = methods_of(tasks)
    data: dict[str, list[Record]] = {}
    panels = {}
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
                record(method=method, run=run.name, round=int(t), mean=float(run.best_by_round[t]))
                for run in runs
                for t in thin(np.arange(len(run.best_by_round)), MAX_ROUNDS // len(runs) + 2)
            ]
        size = (760, 300) if len(tasks) == 1 else (355, 200)
        panels[task] = _curves(number, methods).properties(width=size[0], height=size[1])
    caption = (
        f"The best member of each round: mean ± 1 standard error over runs ({_seeds(tasks)} per group), as far as all "
        "of them went, and each run as a thin line."
    )
    return Figure("comparison", "Learning curves", caption, _concatenate(panels, spacing=24), data)


def _seeds(tasks: RunsByTask) -> str:
    seeds = {len(runs) for groups in tasks.values() for runs in groups.values()}
    return f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else str(max(seeds))


def _mean_record(values: list[float], **known: object) -> Record:
    mean, error = float(np.mean(values)), float(np.nan_to_num(standard_error(values)))
    return record(**known, mean=mean, low=mean - error, high=mean + error, seeds=len(values))


def _concatenate(panels: Mapping[str, Any], **options: int) -> Any:
    """Put the panels of the tasks side by side, each with its title if there are several."""
    if len(panels) == 1:
        return alt.concat(*panels.values(), columns=1, **options)
    named = (panel.properties(title=charts.panel_title(task)) for task, panel in panels.items())
    return alt.concat(*named, columns=2, **options)


def _curves(number: int, methods: list[str]) -> Any:
    base, each = (alt.Chart(alt.NamedData(f"{source}{number}")) for source in ("task", "each"))
    colour = charts.colour("method", methods)
    rounds = alt.Axis(grid=False, tickMinStep=1, format="~s")
    x = alt.X("round:Q", title="round", axis=rounds, scale=alt.Scale(nice=False))
    y = alt.Y(
        "mean:Q",
        title="score of the best member",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(format=charts.TICK_FORMAT),
    )
    tip = charts.tooltips(("method", "method"), ("round", "round", ""), *MEAN_TIP)
    band = base.mark_area(opacity=0.2).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour)
    thin_lines = each.mark_line(strokeWidth=1, opacity=0.6).encode(x=x, y=y, color=colour, detail="run:N")
    return alt.layer(band, thin_lines, base.mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour, tooltip=tip))


def finals(tasks: RunsByTask) -> Figure:
    """Draw the final score of every run, and the mean of each method ± 1 standard error."""
    methods = methods_of(tasks)
    data: dict[str, list[Record]] = {}
    panels = {}
    for number, (task, groups) in enumerate(tasks.items()):
        last = {method: [(run.name, run.final.score) for run in runs if run.final] for method, runs in groups.items()}
        data[f"runs{number}"] = [
            record(method=method, score=float(score), run=name) for method, ends in last.items() for name, score in ends
        ]
        data[f"means{number}"] = [
            _mean_record([score for _, score in ends], method=method) for method, ends in last.items() if ends
        ]
        size = 760 if len(tasks) == 1 else 300
        panels[task] = _dots(number, methods).properties(width=size, height=charts.rows_height(methods, 34))
    caption = "Each dot is a run: its best member at the end. Diamond and line: mean ± 1 standard error."
    return Figure("finals", "Final scores", caption, _concatenate(panels), data)


def _dots(number: int, methods: list[str]) -> Any:
    axis = alt.Axis(grid=False, format=charts.TICK_FORMAT, tickCount=8)
    x = alt.X("score:Q", title="final score", scale=alt.Scale(zero=False), axis=axis)
    y = charts.labels_axis("method", methods, grid=True)
    colour = alt.Color("method:N", legend=None, scale=charts.legend_scale(methods))
    runs, means = (alt.Chart(alt.NamedData(f"{source}{number}")) for source in ("runs", "means"))
    run_tip = charts.tooltips(("run", "run"), ("score", "score", ".5~g"))
    return alt.layer(
        means.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour),
        means.mark_point(shape="diamond", filled=True, size=130, opacity=1).encode(
            x=alt.X("mean:Q"), y=y, color=colour, tooltip=charts.tooltips(("method", "method"), *MEAN_TIP)
        ),
        runs.mark_circle(size=40, opacity=0.5).encode(x=x, y=y, color=colour, tooltip=run_tip),
    )
