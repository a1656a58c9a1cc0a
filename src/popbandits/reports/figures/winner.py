"""The winner, handed over: its curve along its lineage, where it took other weights, its hyperparameters beneath."""

from collections.abc import Sequence
from typing import Any, TypeVar

import altair as alt
import numpy as np

from popbandits.basics.wording import setting
from popbandits.reports.figures import charts
from popbandits.reports.figures.far import Far, scale_ends
from popbandits.reports.figures.figure import MAX_MARKS, Figure, Record, record, thin
from popbandits.reports.figures.theme import BLUE, GREY, RED
from popbandits.reports.gained import Gain
from popbandits.reports.run import Run, label_names
from popbandits.space.parameters import Categorical, Numerical

T = TypeVar("T")

WINNER, SWITCHED = "the winner, along its lineage", "went on from another's weights"
MAX_PANELS = 8
"""Maximum hyperparameters drawn beneath the curve, the first that changed."""


def winner(run: Run, gain: Gain | None) -> Figure:
    """Draw the score along the lineage of what is handed over, and beneath it the values that changed."""
    configs = [run.space.flatten(run.history.applied(o)) for o in run.winner]
    parameters: list[Numerical | Categorical] = [*run.space.numerical, *run.space.categorical]
    moved = [p for p in parameters if any(one.get(p.name) != configs[0].get(p.name) for one in configs)]
    still = [f"{p.name} {setting(configs[0][p.name])}" for p in parameters if p not in moved and p.name in configs[0]]
    switched = [o for o in run.winner if o.parent is not None and o.parent[0] != o.member]
    # Of a long lineage a part is drawn; what is said holds for all of it.
    line, configs, copied = _some(run.winner), _some(configs), _some(switched)
    beside = [] if gain is None else _some([o for o in gain.line if o.key not in run.winning])
    over = gain.over if gain is not None and beside else None
    # In the order they are drawn, one upon the other.
    marked = zip(("start", "winner", "switches"), (over, WINNER, SWITCHED), (beside, line, copied), strict=True)
    data = {
        source: [record(member=o.member, round=o.round, score=o.score, curve=name) for o in found]
        for source, name, found in marked
    }
    for row, o in zip(data["switches"], copied, strict=True):
        row |= {"at": o.round - 0.5, "source": "" if o.parent is None else f"member {o.parent[0]}"}
    data = {source: found for source, found in data.items() if found}
    far = Far.of(run)
    if far is not None and all(run.sign * o.score >= run.sign * far.limit for o in (*line, *beside)):
        far = None
    panels = [_curve(list(data), over, scale_ends(run.sign, None if far is None else far.limit))]
    for i, parameter in enumerate(moved[:MAX_PANELS]):
        for row, config in zip(data["winner"], configs, strict=True):
            row |= {f"value{i}": _drawn(parameter, config[parameter.name])} if parameter.name in config else {}
        panels.append(_values(f"value{i}", parameter, {row.get(f"value{i}") for row in data["winner"]}))
    if copied:
        rule = alt.Chart(alt.NamedData("switches")).mark_rule(strokeDash=[3, 3], color=BLUE, opacity=0.6)
        panels = [alt.layer(rule.encode(x="at:Q"), panel) for panel in panels]
    caption = f"The run hands over {run.choice}. "
    times = f"{len(switched):,} times (dashed lines)" if len(switched) > 1 else "once (the dashed line)"
    caption += f"Its lineage went on from another's weights {times}." if switched else "Its lineage copied nobody."
    caption += f" Grey: {gain.over}, {gain.where}." if gain is not None and over else ""
    caption += " Scores far worse than the others are beyond the axis." if far is not None else ""
    caption += f" Unchanged: {', '.join(still)}." if still and len(still) <= MAX_PANELS else ""
    caption += f" {MAX_PANELS} of {len(moved)} values that changed are drawn." if len(moved) > MAX_PANELS else ""
    bare, full = charts.rounds_axis(run.horizon, None, labels=False), charts.rounds_axis(run.horizon)
    chart = alt.vconcat(*(panel.encode(x=full if panel is panels[-1] else bare) for panel in panels), spacing=8)
    return Figure("winner", "The winner", caption, chart, data)


def _some(items: Sequence[T]) -> list[T]:
    return [items[i] for i in thin(np.arange(len(items)), MAX_MARKS)]


def _drawn(parameter: Numerical | Categorical, value: Any) -> Any:
    """Return a value as it is drawn: a number, or the name of a label."""
    return label_names(parameter.labels)[parameter.labels.index(value)] if parameter.labels else float(value)


def _curve(sources: list[str], over: str | None, ends: Record) -> Any:
    """Draw the score, the switches on it and, if there is one, the curve that it is compared with, within the ends."""
    colours = {WINNER: RED} | ({SWITCHED: BLUE} if "switches" in sources else {}) | ({over: GREY} if over else {})
    y, colour, clip = charts.score_axis(**ends), charts.colour("curve", colours), bool(ends)
    layers = []
    for source in sources:
        base = charts.intervals(source)
        marks, tip = base.mark_line(strokeWidth=2.5, point=True, clip=clip), charts.tooltips(*charts.SCORE_TIP)
        if source == "switches":
            marks = base.mark_point(shape="diamond", filled=True, size=110, opacity=1, clip=clip)
            tip = charts.tooltips(*charts.SCORE_TIP, ("source", "weights of"))
        layers.append(marks.encode(y=y, color=colour, tooltip=tip, order="round:Q"))
    return alt.layer(*layers).properties(width=740, height=200)


def _values(field: str, parameter: Numerical | Categorical, drawn: set[Any]) -> Any:
    """Draw the values of a hyperparameter that the winner trained with."""
    labels = [name for name in label_names(parameter.labels) if name in drawn]
    if labels:
        y = charts.labels_axis(field, labels)
    else:
        found = [value for value in drawn if value is not None]
        whole = isinstance(parameter, Numerical) and parameter.kind == "integer" and not parameter.log and found
        ticks = charts.whole_ticks(int(min(found)), int(max(found))) if whole else {}
        axis = alt.Axis(**{"tickCount": 3, "grid": False, "format": ".4~g", **ticks})
        scale = alt.Scale(**charts.scale_kind(parameter))
        y = alt.Y(f"{field}:Q", title=None, scale=scale, axis=axis)
    height, shown = (charts.rows_height(labels), (field, "value")) if labels else (50, (field, "value", ".4~g"))
    line = (
        charts.intervals("winner")
        .mark_line(interpolate="step", strokeWidth=2, color=RED, point={"color": RED})
        .encode(y=y, order="round:Q", tooltip=charts.tooltips(charts.SCORE_TIP[0], shown))
    )
    return line.properties(width=740, height=height, title=charts.panel_title(parameter.name))
