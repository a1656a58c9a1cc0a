"""Comparison of runs: learning curves, regret and final scores by method."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from popbandits.reports.figures.figure import TICK_FORMAT, Figure, Record, legend_scale, panel_title, record, thin
from popbandits.reports.run import Run
from popbandits.reports.stats import standard_error
from popbandits.typing import BoolArray, FloatArray

Grouped = Mapping[str, Mapping[str, Sequence[Run]]]
"""Runs by task, then by method."""


def curves(tasks: Grouped) -> Figure:
    """Draw the best member of each round, mean ± 1 standard error over seeds; a panel for each task."""
    tables = {task: {method: _best(runs) for method, runs in groups.items()} for task, groups in tasks.items()}
    caption = f"The best member of each round: mean ± 1 standard error over runs ({_seeds(tasks)} per method)."
    return _over_rounds("comparison", "Learning curves by method", caption, "score of the best member", tables)


def regrets(tasks: Grouped) -> Figure:
    """Draw the distance of each round's best member from the best score of any run, summed over rounds.

    The paper's figure 3 uses the optimum instead, which is known only for synthetic problems: `popbandits synthetic`.
    """
    tables: dict[str, dict[str, FloatArray]] = {}
    for task, groups in tasks.items():
        best = {method: runs[0].sign * _best(runs) for method, runs in groups.items()}
        top = max((float(table[np.isfinite(table)].max(initial=-np.inf)) for table in best.values()), default=0.0)
        # A round that no member completed adds nothing.
        tables[task] = {
            method: np.where(_reached(groups[method]), np.nancumsum(top - table, axis=0), np.nan)
            for method, table in best.items()
        }
    caption = (
        "The distance of each round's best member from the best score that any of these runs reached, summed over "
        f"rounds; less is better. Mean ± 1 standard error over runs ({_seeds(tasks)} per method)."
    )
    return _over_rounds("regret", "Cumulative regret", caption, "cumulative regret", tables)


def _seeds(tasks: Grouped) -> str:
    seeds = {len(runs) for groups in tasks.values() for runs in groups.values()}
    return f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else str(max(seeds))


def _over_rounds(
    name: str, title: str, caption: str, axis: str, tables: Mapping[str, Mapping[str, FloatArray]]
) -> Figure:
    """Draw mean ± 1 standard error over the columns of each table, round by round; a panel for each task."""
    import altair as alt

    methods = list(dict.fromkeys(method for groups in tables.values() for method in groups))
    data: dict[str, list[Record]] = {}
    panels = []
    for number, (task, groups) in enumerate(tables.items()):
        rows = []
        for method, table in groups.items():
            for t in thin(np.arange(len(table)), 400):
                values = table[t][np.isfinite(table[t])].tolist()
                if not values:
                    continue
                mean, error = float(np.mean(values)), float(np.nan_to_num(standard_error(values)))
                rows.append(
                    record(
                        method=method, round=int(t), mean=mean, low=mean - error, high=mean + error, seeds=len(values)
                    )
                )
        data[f"task{number}"] = rows
        panels.append(_curves(f"task{number}", methods, task if len(tables) > 1 else None, len(tables), axis))
    chart = alt.concat(*panels, columns=1 if len(tables) == 1 else 2, spacing=24)
    return Figure(name, title, caption, chart, data)


def _best(runs: Sequence[Run]) -> FloatArray:
    """Return the best scores, (rounds, runs); NaN for rounds that a run has not reached."""
    rounds = max(len(run.best_by_round) for run in runs)
    table = np.full((rounds, len(runs)), np.nan)
    for i, run in enumerate(runs):
        table[: len(run.best_by_round), i] = run.best_by_round
    return table


def _reached(runs: Sequence[Run]) -> BoolArray:
    """Return a mask, (rounds, runs), of the rounds that each run reached."""
    lengths = np.array([len(run.best_by_round) for run in runs])
    return np.arange(lengths.max())[:, None] < lengths


def _curves(source: str, methods: list[str], title: str | None, tasks: int, axis: str) -> Any:
    import altair as alt

    base = alt.Chart(alt.NamedData(source))
    colour = alt.Color("method:N", title=None, scale=legend_scale(methods))
    x: Any = alt.X(
        "round:Q", title="round", axis=alt.Axis(grid=False, tickMinStep=1, format="~s"), scale=alt.Scale(nice=False)
    )
    y = alt.Y("mean:Q", title=axis, scale=alt.Scale(zero=False), axis=alt.Axis(format=TICK_FORMAT))
    tip = [
        alt.Tooltip("method:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("mean:Q", format=".5~g"),
        alt.Tooltip("low:Q", title="from", format=".5~g"),
        alt.Tooltip("high:Q", title="to", format=".5~g"),
        alt.Tooltip("seeds:Q", title="runs"),
    ]
    band = base.mark_area(opacity=0.2).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour)
    line = base.mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour, tooltip=tip)
    size = (760, 300) if tasks == 1 else (355, 200)
    chart = alt.layer(band, line).properties(width=size[0], height=size[1])
    return chart if title is None else chart.properties(title=panel_title(title))


def finals(tasks: Grouped) -> Figure:
    """Draw the final score of every run, and the mean of each method ± 1 standard error."""
    import altair as alt

    methods = list(dict.fromkeys(method for groups in tasks.values() for method in groups))
    data: dict[str, list[Record]] = {}
    panels = []
    for number, (task, groups) in enumerate(tasks.items()):
        runs, means = [], []
        for method, members in groups.items():
            last = [(run.name, run.final.score) for run in members if run.final is not None]
            scores = [score for _, score in last]
            runs += [record(method=method, score=float(score), run=name) for name, score in last]
            if scores:
                mean, error = float(np.mean(scores)), float(np.nan_to_num(standard_error(scores)))
                means.append(record(method=method, mean=mean, low=mean - error, high=mean + error, seeds=len(scores)))
        data |= {f"runs{number}": runs, f"means{number}": means}
        y = alt.Y("method:N", title=None, scale=alt.Scale(domain=methods), sort=None, axis=alt.Axis(grid=True))
        colour = alt.Color("method:N", legend=None, scale=legend_scale(methods))
        seen, mean_of = alt.Chart(alt.NamedData(f"runs{number}")), alt.Chart(alt.NamedData(f"means{number}"))
        tip = [
            alt.Tooltip("method:N"),
            alt.Tooltip("mean:Q", format=".5~g"),
            alt.Tooltip("low:Q", title="from", format=".5~g"),
            alt.Tooltip("high:Q", title="to", format=".5~g"),
            alt.Tooltip("seeds:Q", title="runs"),
        ]
        x = alt.X(
            "score:Q",
            title="final score",
            scale=alt.Scale(zero=False),
            axis=alt.Axis(grid=False, format=TICK_FORMAT, tickCount=8),
        )
        layers = [
            mean_of.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour),
            mean_of.mark_point(shape="diamond", filled=True, size=130, opacity=1).encode(
                x=alt.X("mean:Q"), y=y, color=colour, tooltip=tip
            ),
            seen.mark_circle(size=40, opacity=0.5).encode(
                x=x, y=y, color=colour, tooltip=[alt.Tooltip("run:N"), alt.Tooltip("score:Q", format=".5~g")]
            ),
        ]
        chart = alt.layer(*layers).properties(width=760 if len(tasks) == 1 else 300, height=34 * len(methods))
        panels.append(chart if len(tasks) == 1 else chart.properties(title=panel_title(task)))
    caption = "Each dot is a run: its best member at the end. Diamond and line: mean ± 1 standard error."
    return Figure("finals", "Final scores", caption, alt.concat(*panels, columns=1 if len(tasks) == 1 else 2), data)
