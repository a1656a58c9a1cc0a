"""Learned schedules: the values trained with over time, and those of the winning lineage."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from popbandits.basics.typing import BoolArray
from popbandits.reports.data import RunData
from popbandits.reports.figures import charts
from popbandits.reports.figures.figure import MAX_MARKS, Figure, Record, most_used, record, thin
from popbandits.reports.figures.theme import GREY, RED
from popbandits.reports.run import label_names
from popbandits.space.parameters import Categorical, Numerical

OTHERS, WINNER = "a member", "winning lineage"
FULL_PANELS = 8
"""Number of hyperparameters above which each gets fewer points."""
MAX_LABELS = 30
"""Maximum labels drawn of a choice; of more, the most used."""
MAX_AXIS_LABEL_CHARS = 28
"""Maximum characters of a label on an axis."""


class Panel(NamedTuple):
    """A panel of a number, or of the labels of a choice."""

    source: str
    number: Numerical | None
    labels: tuple[str, ...]
    last_round: int
    title: str
    width: int


def schedules(groups: Mapping[str, Sequence[RunData]]) -> Figure:
    """Draw a panel for each hyperparameter; a column for each group of runs on one space, if there are several."""
    runs = [run for group in groups.values() for run in group]
    space = runs[0].space
    known: list[Numerical | Categorical] = [*space.numerical, *space.categorical]
    parameters = sorted(known, key=lambda parameter: space.names.index(parameter.name))
    room = MAX_MARKS * FULL_PANELS // max(FULL_PANELS, len(parameters)) // len(runs)
    shown = {id(run): _shown(run, room) for run in runs}
    labels = {parameter.name: _labels(parameter, runs) for parameter in parameters}
    several, last = len(groups) > 1, max(run.horizon for run in runs)
    # Long labels narrow both columns, so that a page need not be scrolled sideways.
    longest = max((len(label) for names in labels.values() for label in names.values()), default=0)
    width = 250 if several else 375 - 3 * max(0, min(MAX_AXIS_LABEL_CHARS, longest) - 7)
    data: dict[str, list[Record]] = {}
    panels = []
    for p, parameter in enumerate(parameters):
        names = labels[parameter.name]
        # The largest level of a scale is on top.
        order = tuple(names.values())[:: -1 if isinstance(parameter, Numerical) else 1]
        number = parameter if isinstance(parameter, Numerical) and not names else None
        for g, (group, members) in enumerate(groups.items()):
            source = f"schedule{p}_{g}"
            data[source] = [row for run in members for row in _points(run, parameter, names, shown[id(run)])]
            title = f"{parameter.name} — {group}" if several else parameter.name
            panels.append(Panel(source, number, order, last, title, width))
    total = sum(run.trained for run in runs)
    drawn = sum(int(mask.sum()) for mask in shown.values())
    part = "" if drawn == total else f" {drawn:,} of {total:,} intervals are drawn, the winning lineage whole."
    caption = (
        "Every point is an interval of a member. Highlighted: the values that led to what is handed over. "
        f"Inactive values are absent.{part}"
    )
    chart = _concatenate(tuple(panels), len(groups) if several else 2)
    return Figure("schedules", "Learned schedules", caption, chart, data, by_member=True)


def _shown(run: RunData, most: int) -> BoolArray:
    """Return a mask of the rows to draw: the winning lineage, and `most` others at most."""
    rows = run.intervals
    won = np.array([key in run.winning for key in zip(rows.member.tolist(), rows.round.tolist(), strict=True)], bool)
    mask = won.copy()
    mask[thin(np.flatnonzero(~won), most)] = True
    return mask


def _labels(parameter: Numerical | Categorical, runs: Sequence[RunData]) -> dict[int, str]:
    """Return the labels to draw of a hyperparameter without a scale, by index; none for a number."""
    if not parameter.labels:
        return {}
    names = label_names(parameter.labels)
    codes = np.concatenate([_codes(run, parameter) for run in runs])
    return {i: names[i] for i in most_used(np.bincount(codes[codes >= 0], minlength=len(names)), MAX_LABELS)}


def _codes(run: RunData, parameter: Numerical | Categorical) -> Any:
    """Return a column of the rows: values of a number, indices of labels; NaN or -1 where it is inactive."""
    points, space = run.intervals.points, run.space
    if isinstance(parameter, Categorical):
        return points.h[:, space.categorical.index(parameter)]
    codes = space.codes(space.along(points.x, run.intervals.round))[:, space.numerical.index(parameter)]
    return codes if parameter.kind != "ordinal" else np.where(np.isnan(codes), -1, codes).astype(np.int64)


def _points(
    run: RunData, parameter: Numerical | Categorical, labels: Mapping[int, str], shown: BoolArray
) -> Iterator[Record]:
    rows, codes = run.intervals, _codes(run, parameter)
    for i in np.flatnonzero(shown):
        value = labels.get(int(codes[i])) if labels else float(codes[i])
        if value is not None and value == value:
            member, round_ = int(rows.member[i]), int(rows.round[i])
            kind = WINNER if (member, round_) in run.winning else OTHERS
            yield record(member=member, round=round_, value=value, kind=kind, change=float(rows.change[i]))


@lru_cache(16)  # A page that follows a run draws the same panels repeatedly.
def _concatenate(panels: tuple[Panel, ...], columns: int) -> Any:
    return alt.concat(*map(_draw, panels), columns=columns, spacing=24)


def _draw(panel: Panel) -> Any:
    offset: Any = alt.Undefined
    height = 150
    if panel.number is None:
        y = charts.labels_axis("value", panel.labels, grid=True, tickBand="extent")
        # Members on the same label would hide each other.
        offset = alt.YOffset("member:Q", scale=alt.Scale(zero=False, padding=3))
        height = max(height, charts.rows_height(panel.labels))
    else:
        scale, axis = charts.number_scale(panel.number), charts.number_axis(panel.number)
        y = alt.Y("value:Q", title=None, scale=scale, axis=axis)
    tip = charts.tooltips(
        ("who", "interval"),
        ("value", "value") if panel.labels else ("value", "value", ".4~g"),
        ("change", "change in score", "+.4~g"),
    )
    x, colour = charts.rounds_axis(panel.last_round), charts.colour("kind", {WINNER: RED, OTHERS: GREY})
    base = charts.intervals(panel.source).encode(x=x, y=y, yOffset=offset, color=colour, tooltip=tip)
    others = base.transform_filter(f"datum.kind === '{OTHERS}'").mark_circle(size=20).encode(opacity=charts.fade(0.45))
    winner = base.transform_filter(f"datum.kind === '{WINNER}'").mark_circle(size=42)
    return alt.layer(others, winner.encode(opacity=charts.fade(1.0, 0.3))).properties(
        width=panel.width, height=height, title=charts.panel_title(panel.title)
    )
