"""The parts that figures share: the figure itself, colours, scales, and samples of long runs."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from popbandits.extras import require
from popbandits.reports.run import MAX_LABEL_CHARS, label_names, shorten
from popbandits.space.parameters import Numerical
from popbandits.storage.disk import write_whole
from popbandits.typing import IntArray

if TYPE_CHECKING:
    import altair as alt

# Okabe and Ito's colours, which colour-blind readers can tell apart; their yellow is too pale for a line.
BLUE, ORANGE, GREEN, PURPLE, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
GREY = "#8A8F98"
PALETTE = [BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY, "#A08500"]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]]
"""Dash patterns for lines beyond the number of colours."""

MAX_MARKS = 3_000
"""Maximum marks of a kind in a figure; of more, a sample is drawn."""

TICK_FORMAT = ".6~g"
"""Format of ticks. Without a number of digits, Vega would write 300 as 3e+2 where ticks are hundreds."""

INTERVAL_NAME = "'member ' + datum.member + ', round ' + datum.round"
"""Name of an interval, as a Vega expression: sent once, not with every point."""

TITLE_CHARS = 28
"""Approximate letters of a line of a title: so many fit beside the labels of an axis in a narrow window."""

MEMBER_PARAM = "member"
"""Parameter of figures that show members: the member to highlight, -1 for all."""

Record = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Figure:
    """A chart with its title and caption; the data are separate, so that panels share them."""

    name: str
    """Name of its files."""
    title: str
    caption: str
    panels: Any
    """Layers or panels in Altair, without title and data."""
    data: Mapping[str, Sequence[Record]]
    by_member: bool = False
    """True if a member can be highlighted."""
    axes: Mapping[str, Any] | None = None
    """Other axes that a page can draw it along (axes.js): encodings of x by field, labels and titles of y by name."""

    @property
    def spec(self) -> dict[str, Any]:
        """The complete Vega-Lite specification."""
        # Not validated, and the data added afterwards: validation takes seconds, and tests do it.
        spec: dict[str, Any] = self._styled().to_dict(validate=False)
        return spec | {"datasets": dict(self.data)}

    @property
    def chart(self) -> Any:
        """An Altair chart, for a notebook or further changes."""
        chart = self._styled()
        chart.datasets = dict(self.data)
        return chart

    def __repr__(self) -> str:
        return f"Figure({self.name!r}: {self.title})"

    def _repr_svg_(self) -> str:
        """Return the picture for notebooks, which needs no network."""
        import vl_convert

        return str(vl_convert.vegalite_to_svg(json.dumps(self.spec)))

    def _styled(self) -> Any:
        import altair as alt

        chart: Any = self.panels.copy(deep=False)
        # Set directly: each of Altair's methods copies everything.
        chart.title = alt.Title(self.title, subtitle=wrap(self.caption, 110), anchor="start", offset=16)
        chart.config = config()
        if self.by_member:
            chart.params = [alt.VariableParameter(name=MEMBER_PARAM, value=-1)]
        return chart

    def write(self, directory: Path, kinds: Sequence[str] = ("png", "svg", "pdf", "vl.json")) -> list[Path]:
        """Write files for print: PNG, SVG and PDF, and Vega-Lite, which any Vega editor opens."""
        import vl_convert

        text = json.dumps(self.spec)
        make: dict[str, Callable[[], bytes]] = {
            "png": lambda: vl_convert.vegalite_to_png(text, scale=2),
            "svg": lambda: vl_convert.vegalite_to_svg(text).encode(),
            "pdf": lambda: vl_convert.vegalite_to_pdf(text),
            "vl.json": text.encode,
        }
        paths = [directory / f"{self.name}.{kind}" for kind in kinds]
        for path, kind in zip(paths, kinds, strict=True):
            write_whole(path, make[kind]())
        return paths


def require_extra(*more: str) -> None:
    """Raise an error unless the libraries for figures, and those named, are installed."""
    require("altair", "vl_convert", *more, extra="report")


def config(dark: bool = False) -> dict[str, Any]:
    """Return the configuration of charts, light or dark."""
    ink, soft, line, ground = (
        ("#e8eaed", "#b3b9c2", "#343943", "#17191e") if dark else ("#1d2129", "#555c66", "#e4e7eb", "#ffffff")
    )
    letters = "system-ui, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
    quiet: Any = {
        "labelColor": soft,
        "titleColor": soft,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 12,
    }
    return {
        "background": ground,
        "font": letters,
        "padding": 8,
        "view": {"stroke": None},
        "axis": quiet | {"gridColor": line, "domain": False, "ticks": False, "labelPadding": 5, "labelLimit": 130},
        "legend": quiet
        | {"orient": "top", "symbolSize": 90, "symbolOpacity": 1, "symbolStrokeWidth": 3, "labelLimit": 260},
        "title": {
            "color": ink,
            "subtitleColor": soft,
            "fontSize": 16,
            "subtitleFontSize": 12,
            "subtitlePadding": 6,
            "subtitleLineHeight": 16,
        },
        "header": quiet,
        "range": {"category": PALETTE},
        "rule": {"color": soft},
        "text": {"color": ink},
    }


def wrap(text: str, width: int) -> list[str]:
    """Split a text between words into lines of at most `width` characters."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines


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


def record(**values: Any) -> Record:
    """Make a row of data: numbers with six digits, without unknown values.

    >>> record(member=1, score=0.123456789, change=float("nan"))
    {'member': 1, 'score': 0.123457}
    """
    return {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in values.items()
        if not (value is None or (isinstance(value, float) and not math.isfinite(value)))
    }


def thin(indices: IntArray, most: int = MAX_MARKS) -> IntArray:
    """Return at most `most` of the indices, evenly spread."""
    return indices if len(indices) <= most else indices[np.linspace(0, len(indices) - 1, most).astype(np.int64)]


def panel_title(text: str) -> "alt.Title":
    """Make the title of one panel."""
    import altair as alt

    title = lines(shorten(text, MAX_LABEL_CHARS), TITLE_CHARS)
    written: Any = title if len(title) > 1 else title[0]
    return alt.Title(written, fontSize=13, anchor="start", frame="group", offset=8, limit=320)


def rounds_axis(most: int, title: str | None = "round") -> "alt.X":
    """Make an axis of rounds, from 0."""
    import altair as alt

    scale = alt.Scale(domain=[0, max(1, most)], nice=False)
    return alt.X("round:Q", title=title, scale=scale, axis=alt.Axis(grid=False, tickMinStep=1, format="~s"))


def number_scale(number: Numerical) -> "alt.Scale":
    """Make the scale of a hyperparameter, over its whole range."""
    import altair as alt

    domain = [number.lower, number.upper]
    return (
        alt.Scale(type="log", domain=domain, nice=False)
        if number.log
        else alt.Scale(domain=domain, nice=False, zero=False)
    )


def number_axis(number: Numerical, **options: Any) -> "alt.Axis":
    """Make an axis with ticks at values of a hyperparameter."""
    import altair as alt

    if number.labels:
        names = json.dumps(label_names(number.labels))
        return alt.Axis(**{"values": list(range(len(number.labels))), "labelExpr": f"{names}[datum.value]", **options})
    if number.log:
        form = "~e" if number.lower < 1e-3 else TICK_FORMAT  # "0.00001" overlaps its neighbour.
        return alt.Axis(**{"values": log_ticks(number.lower, number.upper), "format": form, **options})
    whole: Record = {"tickMinStep": 1, "format": "~s"} if number.kind == "integer" else {"format": TICK_FORMAT}
    return alt.Axis(**{"tickCount": 4, **whole, **options})


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


def legend_scale(names: Sequence[str], colours: Sequence[str] | None = None) -> "alt.Scale":
    """Make a scale with a colour for each name, in this order."""
    import altair as alt

    return alt.Scale(domain=list(names), range=list(colours or (PALETTE[i % len(PALETTE)] for i in range(len(names)))))


def fade(full: float, faint: float = 0.06) -> Any:
    """Make the opacity of a member's mark: faint while another member is highlighted."""
    import altair as alt

    test = f"{MEMBER_PARAM} < 0 || datum.member === {MEMBER_PARAM}"
    # Not alt.condition, which is thirty times slower.
    whole: Any = alt.ConditionalValueDefnumberExprRef(test=test, value=full)  # type: ignore[no-untyped-call]
    return alt.OpacityValue(faint, condition=whole)
