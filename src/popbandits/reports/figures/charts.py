"""Parts that charts share: titles, axes, scales, tooltips and opacities."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import altair as alt

from popbandits.reports.figures.figure import MEMBER_PARAM, Record
from popbandits.reports.figures.theme import PALETTE
from popbandits.reports.run import MAX_LABEL_CHARS, label_names, shorten
from popbandits.space.parameters import Categorical, Numerical

TICK_FORMAT = ".9~g"
"""Format of ticks. Without a number of digits, Vega would write 300 as 3e+2 where ticks are hundreds."""

SCORE_TIP = ("who", "interval"), ("score", "score", ".7~g")
"""Tooltip of an interval: its name, as `intervals` computes it, and its score."""

ROW_CHARS = 20
"""Approximate characters of a line of a row's label."""

TITLE_CHARS = 28
"""Approximate characters of a line of a title: so many fit beside the labels of an axis in a narrow window."""


def lines(name: str, width: int) -> list[str]:
    """Split a name after its separators into lines of about `width` characters: Vega would cut a long one.

    >>> lines("explained_variance_of_the_value_function", 24)
    ['explained_variance_of_', 'the_value_function']
    """
    found = [""]
    for part in filter(None, re.findall(r"[^\s_./:-]*[\s_./:-]*", name)):
        if found[-1] and len(found[-1]) + len(part.rstrip()) > width:
            found.append("")
        found[-1] += part
    return [line[i : i + width].strip() for line in found for i in range(0, max(1, len(line)), width)]


def tooltips(*columns: tuple[str, ...]) -> list[alt.Tooltip]:
    """Make tooltips from the field and title of each text, or the field, title and format of each number."""
    return [
        alt.Tooltip(
            f"{field}:{'Q' if number else 'N'}",
            title=title if title != field else alt.Undefined,
            format=number[0] if number and number[0] else alt.Undefined,
        )
        for field, title, *number in columns
    ]


def intervals(source: str, **computed: str) -> alt.Chart:
    """Begin a chart of intervals: the page computes their names, which are not sent with every point."""
    who = "'member ' + datum.member + ', round ' + datum.round"
    return alt.Chart(alt.NamedData(source)).transform_calculate(who=who, **computed)


def score_axis(field: str = "score", title: str = "score", **ends: Any) -> alt.Y:
    """Make a vertical axis of scores, with the ends of its scale that are given."""
    return alt.Y(f"{field}:Q", title=title, scale=alt.Scale(zero=False, **ends), axis=alt.Axis(format=TICK_FORMAT))


def panel_title(text: str) -> alt.Title:
    """Make the title of one panel."""
    title = lines(shorten(text, MAX_LABEL_CHARS), TITLE_CHARS)
    written: Any = title if len(title) > 1 else title[0]
    return alt.Title(written, fontSize=13, anchor="start", frame="group", offset=8, limit=320)


def rounds_axis(most: int, title: str | None = "round", **options: Any) -> alt.X:
    """Make an axis of rounds, from 0."""
    scale = alt.Scale(domain=[0, max(1, most)], nice=False)
    axis = alt.Axis(grid=False, format="~s", **whole_ticks(0, max(1, most)), **options)
    return alt.X("round:Q", title=title, scale=scale, axis=axis)


def number_scale(number: Numerical) -> alt.Scale:
    """Make the scale of a hyperparameter, over its whole range."""
    return alt.Scale(domain=[number.lower, number.upper], nice=False, **scale_kind(number))


def scale_kind(parameter: Numerical | Categorical) -> Record:
    """Return what a scale is given for a hyperparameter: a log scale for some numbers."""
    return {"type": "log"} if isinstance(parameter, Numerical) and parameter.log else {"zero": False}


def number_axis(number: Numerical, **options: Any) -> alt.Axis:
    """Make an axis with ticks at values of a hyperparameter."""
    if number.labels:
        names = json.dumps(label_names(number.labels))
        return alt.Axis(**{"values": list(range(len(number.labels))), "labelExpr": f"{names}[datum.value]", **options})
    if number.log:
        form = "~e" if number.lower < 1e-3 else TICK_FORMAT  # "0.00001" overlaps its neighbour.
        return alt.Axis(**{"values": log_ticks(number.lower, number.upper), "format": form, **options})
    whole = number.kind == "integer"
    ticks = whole_ticks(int(number.lower), int(number.upper)) | {"format": "~s"} if whole else {"format": TICK_FORMAT}
    return alt.Axis(**{"tickCount": 4, **ticks, **options})


def whole_ticks(low: int, high: int) -> Record:
    """Return what an axis is given for ticks at whole numbers only: on a short one Vega's least step lets halves in."""
    return {"values": list(range(low, high + 1))} if high - low < 3 else {"tickMinStep": 1}


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """List round numbers along a log axis.

    >>> log_ticks(4, 128), log_ticks(1e-6, 0.1)
    ([5.0, 10.0, 20.0, 50.0, 100.0], [1e-06, 1e-05, 0.0001, 0.001, 0.01, 0.1])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for mantissas, step in (((1, 2, 5), 1), ((1,), 1), ((1,), 2), ((1,), 3)):
        powers = range(first, last + 1, step)
        ticks = [float(f"{m}e{power}") for power in powers for m in mantissas]
        inside = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(inside) <= most:
            break
    return inside


def colour(field: str, colours: Mapping[str, str] | Sequence[str], **options: Any) -> alt.Color:
    """Make the colour of a mark by a field: that of its value, or the next one of the palette, in this order."""
    if not isinstance(colours, Mapping):
        colours = dict(zip(colours, cycle(PALETTE), strict=False))
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(f"{field}:N", title=None, scale=scale, **options)


def labels_axis(field: str, labels: Sequence[str], **options: Any) -> alt.Y:
    """Make a vertical axis with a row for each label, in this order; long ones are written on several lines."""
    written = [lines(label, ROW_CHARS) for label in labels]
    at = f"{json.dumps(written)}[indexof({json.dumps(list(labels))}, datum.value)]"  # A label may be "__proto__".
    # Vega puts the first line in the middle.
    counts = sorted(set(map(len, written)) - {1})
    centred = [{"test": f"length({at} || []) === {n}", "value": 6.5 * (1 - n)} for n in counts]
    given = {"grid": False, "labelLimit": 0, "labelExpr": at, **options}
    given |= {"labelOffset": {"condition": centred, "value": 0}} if centred else {}
    scale = alt.Scale(domain=list(labels))
    return alt.Y(f"{field}:N", title=None, scale=scale, sort=None, axis=alt.Axis(**given))


def rows_height(labels: Sequence[str], least: int = 24) -> int:
    """Return the height of a panel in which the lines of its labels do not overlap."""
    return max(50, len(labels) * max(least, 10 + 13 * max((len(lines(one, ROW_CHARS)) for one in labels), default=1)))


def fade(full: float, faint: float = 0.06) -> Any:
    """Make the opacity of a member's mark: faint while another member is highlighted."""
    test = f"{MEMBER_PARAM} < 0 || datum.member === {MEMBER_PARAM}"
    # Not alt.condition, which is thirty times slower.
    whole: Any = alt.ConditionalValueDefnumberExprRef(test=test, value=full)  # type: ignore[no-untyped-call]
    return alt.OpacityValue(faint, condition=whole)
