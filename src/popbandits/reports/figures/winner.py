"""The winner: its curve along its lineage, where it went on from other weights, and its hyperparameters beneath."""

from typing import Any

import altair as alt
import numpy as np

from popbandits.basics.wording import counted, setting
from popbandits.reports.figures import charts
from popbandits.reports.figures.figure import MAX_MARKS, Figure, record, thin
from popbandits.reports.figures.theme import BLUE, GREY, RED
from popbandits.reports.gained import Gain
from popbandits.reports.run import Run, label_names
from popbandits.space.parameters import Categorical, Numerical

WINNER, SWITCHED, START = "the winner, along its lineage", "went on from another member's weights", "compared with"
MAX_PANELS = 8
"""Maximum hyperparameters drawn beneath the curve, the first that changed."""
WIDTH = 740


def winner(run: Run, gain: Gain | None) -> Figure:
    """Draw the score along the lineage that ends with the best, and beneath it the values that changed."""
    line = run.history.lineage()
    kept = [line[i] for i in thin(np.arange(len(line)), MAX_MARKS)]
    configs = [run.space.flatten(run.history.applied(o)) for o in kept]
    parameters = {p.name: p for p in (*run.space.numerical, *run.space.categorical)}
    values = {name: [config.get(name) for config in configs] for name in run.space.names}
    moved = [name for name, column in values.items() if any(value != column[0] for value in column)]
    still = [
        f"{name} {setting(column[0])}" for name, column in values.items() if name not in moved and name in configs[0]
    ]
    shown = {name: parameters[name] for name in moved[:MAX_PANELS] if name in parameters}
    rows = [
        record(
            member=o.member,
            round=o.round,
            score=o.score,
            curve=WINNER,
            **{f"value{i}": _shown(p, config[name]) for i, (name, p) in enumerate(shown.items()) if name in config},
        )
        for o, config in zip(kept, configs, strict=True)
    ]
    switches = [
        record(
            at=o.round - 0.5,
            round=o.round,
            score=o.score,
            member=o.member,
            source=f"member {o.parent[0]}",
            curve=SWITCHED,
        )
        for o in line
        if o.parent is not None and o.parent[0] != o.member
    ]
    beside = [] if gain is None or gain.line == line else gain.line
    start = [record(member=o.member, round=o.round, score=o.score, curve=START) for o in beside]
    panels = [_curve(bool(start))]
    for i, (name, p) in enumerate(shown.items()):
        panels.append(_values(f"value{i}", name, p, {row.get(f"value{i}") for row in rows}))
    x = charts.rounds_axis(max(run.horizon, 1))
    caption = (
        f"The weights that reached the best score, {counted(len(switches), 'time')} those of another member (dashed)."
    )
    caption += f" {START.capitalize()}: {gain.over}." if gain is not None and start else ""
    caption += f" Unchanged: {', '.join(still)}." if still and len(still) < 12 else ""
    caption += f" {MAX_PANELS} of {len(moved)} values that changed are drawn." if len(moved) > MAX_PANELS else ""
    chart = alt.vconcat(*(panel.encode(x=x) for panel in panels), spacing=6)
    return Figure("winner", "The winner", caption, chart, {"winner": rows, "switches": switches, "start": start})


def _shown(parameter: Numerical | Categorical, value: Any) -> Any:
    """Return a value as it is drawn: a number, or the name of a label."""
    return label_names(parameter.labels)[parameter.labels.index(value)] if parameter.labels else float(value)


def _curve(start: bool) -> Any:
    """Draw the score, the switches on it and, if there is one, the curve that it is compared with."""
    colours = {WINNER: RED, SWITCHED: BLUE} | ({START: GREY} if start else {})
    y = alt.Y("score:Q", title="score", scale=alt.Scale(zero=False), axis=alt.Axis(format=charts.TICK_FORMAT))
    colour = charts.colour("curve", colours)
    tip = ("who", "interval"), ("score", "score", ".6~g")
    base = alt.Chart(alt.NamedData("winner")).transform_calculate(who=charts.INTERVAL_NAME).encode(y=y, color=colour)
    other = alt.Chart(alt.NamedData("start")).transform_calculate(who=charts.INTERVAL_NAME).encode(y=y, color=colour)
    marks = alt.Chart(alt.NamedData("switches")).transform_calculate(who=charts.INTERVAL_NAME)
    diamonds = marks.mark_point(shape="diamond", filled=True, size=110, opacity=1)
    return alt.layer(
        _switches(),
        other.mark_line(strokeWidth=2, point=True).encode(tooltip=charts.tooltips(*tip)),
        base.mark_line(strokeWidth=2.5, point=True).encode(tooltip=charts.tooltips(*tip)),
        diamonds.encode(y=y, color=colour, tooltip=charts.tooltips(*tip, ("source", "weights of"))),
    ).properties(width=WIDTH, height=220)


def _switches() -> Any:
    """Draw a line between the two rounds where the weights changed."""
    return alt.Chart(alt.NamedData("switches")).mark_rule(strokeDash=[3, 3], color=BLUE, opacity=0.6).encode(x="at:Q")


def _values(field: str, name: str, parameter: Numerical | Categorical, drawn: set[Any]) -> Any:
    """Draw the values of a hyperparameter that the winner trained with."""
    if parameter.labels:
        labels = [label for label in label_names(parameter.labels) if label in drawn]
        y, height = charts.labels_axis(field, labels), charts.rows_height(labels)
    else:
        scale = alt.Scale(type="log" if isinstance(parameter, Numerical) and parameter.log else "linear", zero=False)
        y, height = alt.Y(f"{field}:Q", title=None, scale=scale, axis=alt.Axis(tickCount=3, format=".4~g")), 60
    base = alt.Chart(alt.NamedData("winner")).transform_calculate(who=charts.INTERVAL_NAME)
    tip = charts.tooltips(("who", "interval"), (field, name))
    line = base.mark_line(interpolate="step", strokeWidth=2, color=RED, point={"color": RED}).encode(y=y, tooltip=tip)
    return alt.layer(_switches(), line).properties(width=WIDTH, height=height, title=charts.panel_title(name))
