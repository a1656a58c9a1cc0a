"""A figure: a chart with its title, caption and data; rows of data, and samples of long runs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from popbandits.basics.extras import require
from popbandits.basics.typing import IntArray
from popbandits.basics.wording import rounded
from popbandits.reports.figures.theme import config
from popbandits.storage.disk import write_whole

MAX_MARKS = 3_000
"""Maximum marks of a kind in a figure; of more, a sample is drawn."""

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
        caption = wrap(self.caption, 110, break_long_words=False, break_on_hyphens=False)
        chart.title = alt.Title(self.title, subtitle=caption, anchor="start", offset=16)
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


def record(**values: Any) -> Record:
    """Make a row of data: numbers with nine digits, without unknown values.

    >>> record(member=1, score=0.123456789123, change=float("nan"))
    {'member': 1, 'score': 0.123456789}
    """
    known = {name: rounded(value) if isinstance(value, float) else value for name, value in values.items()}
    return {name: value for name, value in known.items() if value is not None}


def thin(indices: IntArray, most: int = MAX_MARKS) -> IntArray:
    """Return at most `most` of the indices, evenly spread."""
    return indices if len(indices) <= most else indices[np.linspace(0, len(indices) - 1, most).astype(np.int64)]


def most_used(counts: IntArray, most: int) -> list[int]:
    """Return the indices of the `most` largest counts, in order.

    >>> most_used(np.array([1, 0, 5, 1]), 2)
    [0, 2]
    """
    largest: list[int] = np.sort(np.argsort(-counts, kind="stable")[:most]).tolist()
    return largest
