"""Learned schedules: the values trained with over time, and those of the winning lineage."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from popbandits.reports.figures.figure import (
    GREY,
    INTERVAL_NAME,
    MAX_MARKS,
    RED,
    Figure,
    Record,
    fade,
    legend_scale,
    number_axis,
    number_scale,
    panel_title,
    record,
    rounds_axis,
    thin,
)
from popbandits.reports.run import RunData, label_names
from popbandits.space.parameters import Categorical, Numerical
from popbandits.typing import BoolArray

OTHERS, WINNER = "a member", "winning lineage"
FULL_PANELS = 8
"""Number of hyperparameters above which each gets fewer points."""
MAX_LABELS = 30
"""Maximum labels drawn of a choice; of more, the most used."""
MAX_AXIS_LABEL_CHARS = 28
"""Maximum letters of a label on an axis."""

Panel = tuple[str, Numerical | None, tuple[str, ...], int, str, int]
"""Arguments of `_panel`."""


def schedules(groups: Mapping[str, Sequence[RunData]]) -> Figure:
    """Draw a panel for each hyperparameter; a column for each group of runs on one space, if there are several."""
    runs = [run for group in groups.values() for run in group]
    space = runs[0].space
    last = max(run.horizon for run in runs)
    data: dict[str, list[Record]] = {}
    panels = []
    several = len(groups) > 1
    known: list[Numerical | Categorical] = [*space.numerical, *space.categorical]
    parameters = sorted(known, key=lambda parameter: space.names.index(parameter.name))
    room = MAX_MARKS * FULL_PANELS // max(FULL_PANELS, len(parameters)) // len(runs)
    shown = {id(run): _shown(run, room) for run in runs}
    named = [_lanes(parameter, runs) for parameter in parameters]
    # Long labels narrow both columns, so that a page need not be scrolled sideways.
    width = 375 - 3 * max(
        0, min(MAX_AXIS_LABEL_CHARS, max((len(label) for lanes in named for label in lanes.values()), default=0)) - 7
    )
    for p, (parameter, lanes) in enumerate(zip(parameters, named, strict=True)):
        for g, (group, members) in enumerate(groups.items()):
            source = f"schedule{p}_{g}"
            data[source] = [row for run in members for row in _points(run, parameter, lanes, shown[id(run)])]
            name = f"{parameter.name} — {group}" if several else parameter.name
            # The largest level of a scale is on top.
            order = tuple(lanes.values())[:: -1 if isinstance(parameter, Numerical) else 1]
            number = parameter if isinstance(parameter, Numerical) and not lanes else None
            panels.append((source, number, order, last, name, 250 if several else width))
    chart = _concatenate(tuple(panels), len(groups) if several else 2)
    total = sum(run.trained for run in runs)
    drawn = sum(int(mask.sum()) for mask in shown.values())
    part = "" if drawn == total else f" {drawn:,} of {total:,} intervals are drawn, the winning lineage whole."
    caption = (
        "Every point is an interval of a member. Highlighted: the values that led to the best score. "
        f"Inactive values are absent.{part}"
    )
    return Figure("schedules", "Learned schedules", caption, chart, data, by_member=True)


def _shown(run: RunData, most: int) -> BoolArray:
    """Return a mask of the rows to draw: the winning lineage, and `most` others at most."""
    rows = run.intervals
    won = np.array([key in run.winning for key in zip(rows.member.tolist(), rows.round.tolist(), strict=True)], bool)
    mask = won.copy()
    mask[thin(np.flatnonzero(~won), most)] = True
    return mask


def _lanes(parameter: Numerical | Categorical, runs: Sequence[RunData]) -> dict[int, str]:
    """Return the labels to draw of a hyperparameter without a scale, by index; none for a number."""
    if not parameter.labels:
        return {}
    names = label_names(parameter.labels)
    if len(names) <= MAX_LABELS:
        return dict(enumerate(names))
    count = sum(np.bincount(codes[codes >= 0], minlength=len(names)) for codes in (_codes(r, parameter) for r in runs))
    kept = np.sort(np.argsort(-count, kind="stable")[:MAX_LABELS])
    return {int(i): names[i] for i in kept}


def _codes(run: RunData, parameter: Numerical | Categorical) -> Any:
    """Return a column of the rows: values of a number, indices of labels; NaN or -1 where it is inactive."""
    points, space = run.intervals.points, run.space
    if isinstance(parameter, Categorical):
        return points.h[:, space.categorical.index(parameter)]
    codes = space.codes(points.x)[:, space.numerical.index(parameter)]
    return codes if parameter.kind != "ordinal" else np.where(np.isnan(codes), -1, codes).astype(np.int64)


def _points(
    run: RunData, parameter: Numerical | Categorical, lanes: Mapping[int, str], shown: BoolArray
) -> list[Record]:
    rows, codes, found = run.intervals, _codes(run, parameter), []
    for i in np.flatnonzero(shown):
        value = lanes.get(int(codes[i])) if lanes else float(codes[i])
        if value is None or value != value:
            continue
        key = (int(rows.member[i]), int(rows.round[i]))
        found.append(
            record(
                member=key[0],
                round=key[1],
                value=value,
                kind=WINNER if key in run.winning else OTHERS,
                change=float(rows.change[i]) if np.isfinite(rows.change[i]) else None,
            )
        )
    return found


@lru_cache(16)  # A page that follows a run draws the same panels repeatedly.
def _concatenate(panels: tuple[tuple[str, Numerical | None, tuple[str, ...], int, str, int], ...], columns: int) -> Any:
    import altair as alt

    return alt.concat(*(_panel(*given) for given in panels), columns=columns, spacing=24)


def _panel(source: str, number: Numerical | None, lanes: tuple[str, ...], last: int, title: str, width: int) -> Any:
    """Draw a panel of a number, or of labels."""
    import altair as alt

    x = rounds_axis(last)
    base = alt.Chart(alt.NamedData(source)).transform_calculate(who=INTERVAL_NAME)
    offset: Any = alt.Undefined
    height = 150
    if number is None:
        y = alt.Y(
            "value:N",
            title=None,
            scale=alt.Scale(domain=list(lanes)),
            axis=alt.Axis(grid=True, tickBand="extent"),
            sort=None,
        )
        # Members on the same label would hide each other.
        offset = alt.YOffset("member:Q", scale=alt.Scale(zero=False, padding=3))
        height = max(height, 24 * len(lanes))
    else:
        y = alt.Y("value:Q", title=None, scale=number_scale(number), axis=number_axis(number))
    colour = alt.Color("kind:N", title=None, scale=legend_scale([WINNER, OTHERS], [RED, GREY]))
    tip = [
        alt.Tooltip("who:N", title="interval"),
        alt.Tooltip("value:N") if lanes else alt.Tooltip("value:Q", format=".4~g"),
        alt.Tooltip("change:Q", title="change in score", format="+.4~g"),
    ]
    encoding = {"x": x, "y": y, "yOffset": offset, "color": colour, "tooltip": tip}
    marks = [
        base.transform_filter(f"datum.kind === '{OTHERS}'").mark_circle(size=20).encode(**encoding, opacity=fade(0.45)),
        base.transform_filter(f"datum.kind === '{WINNER}'")
        .mark_circle(size=42)
        .encode(**encoding, opacity=fade(1.0, 0.3)),
    ]
    return alt.layer(*marks).properties(width=width, height=height, title=panel_title(title))
