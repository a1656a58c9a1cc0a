"""Table and figure of the cumulative regret in the synthetic experiment (the paper's figure 3)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from scipy.optimize import isotonic_regression

from popbandits.basics.typing import FloatArray
from popbandits.reports.figures.figure import require_extra
from popbandits_experiments.methods import ALL_METHODS as METHODS
from popbandits_experiments.paper.results import Curve, Floor, Results

if TYPE_CHECKING:
    import altair as alt

FLOORS = {
    ("replaced", "same"): "Floor",
    ("replaced", "any"): "Floor, any start",
    ("all", "same"): "Floor, all explore",
}
SECTIONS: dict[Curve, str] = {"mean": "Mean over members", "best": "Best member"}
NOTE = (
    "Best member: the lineage that ends with the best score. Floor: a perfect explorer under PBT's "
    "replacement rule, from the spread first configurations of these seeds; any start: from uniform draws."
)

# Okabe and Ito's colours, which colour-blind readers can tell apart; their yellow is too pale for a line. The last
# three, and Near PBT's, are Tol's.
COLOURS = {
    "random": "#888888",
    "pbt": "#E69F00",
    "near-pbt": "#AA4499",
    "pb2-rand": "#CC79A7",
    "pb2-mult": "#56B4E9",
    "pb2-mix": "#0072B2",
    "pb2-fuse": "#D55E00",
    "pb2-fuse/all": "#009E73",
    "cocabo": "#B8860B",
    "mf-pbt": "#117733",
    "ipbt": "#882255",
    "bg-pbt": "#332288",
}
OTHERS = "#666666"
"""Colour of methods that have none of their own."""
WIDTH, HEIGHT, LETTERS = 250, 330, 11
TICKS = [mantissa * 10.0**exponent for exponent in range(-4, 6) for mantissa in (1, 2, 5)]


def mean_and_error(values: FloatArray) -> tuple[Any, Any]:
    """Return mean and standard error over the first axis; the error of a single run is unknown (NaN).

    >>> mean_and_error(np.array([1.0, 3.0]))
    (np.float64(2.0), np.float64(1.0))
    """
    n = len(values)
    error = values.std(axis=0, ddof=1) / math.sqrt(n) if n > 1 else np.full(values.shape[1:], np.nan)
    return values.mean(axis=0), error


# The table


def table(results: Results, plain: bool = False, plus_minus: str = "±") -> Table:
    """Build the table of final cumulative regret by method and population size, floors, and decision times."""
    view = Table(box=box.ASCII if plain else box.ROUNDED)
    view.add_column("Population of", no_wrap=True)
    for size in results.sizes:
        view.add_column(str(size), justify="right", no_wrap=True)
    blank = [""] * len(results.sizes)
    for what, heading in SECTIONS.items():
        view.add_row(Text(heading, style="" if plain else "bold"), *blank)
        for method in results.methods:
            ends = [results.curves(method, size, what)[:, -1] for size in results.sizes]
            view.add_row(f"  {METHODS[method].label}", *(_cell(values, plus_minus) for values in ends))
        for label, floors in _floor_rows(results):
            view.add_row(f"  {label}", *(f"{getattr(one, what)[-1]:.3f}" for one in floors), style="dim")
        view.add_section()
    view.add_row(Text("Seconds deciding, a run", style="" if plain else "bold"), *blank)
    for method in results.methods:
        cells = [_cost(results, method, size) for size in results.sizes]
        view.add_row(f"  {METHODS[method].label}", *cells)
    return view


def _cell(values: FloatArray, plus_minus: str) -> str:
    mean, error = mean_and_error(values)
    return f"{mean:.3f}" if math.isnan(error) else f"{mean:.3f} {plus_minus} {error:.3f}"


def _cost(results: Results, method: str, size: int) -> str:
    runs = results.of(method, size)
    fallbacks = sum(run.fallbacks for run in runs)
    seconds = f"{np.mean([run.seconds for run in runs]):.2f}"
    return f"{seconds} ({fallbacks} fallbacks)" if fallbacks else seconds


def _floor_rows(results: Results) -> Iterator[tuple[str, list[Floor]]]:
    for kind, label in FLOORS.items():
        found = {one.size: one for one in results.floors if (one.explore, one.start) == kind}
        if found:
            yield label, [found[size] for size in results.sizes]


def print_table(results: Results, console: Console | None = None) -> None:
    """Print the table: with colours and lines on a terminal, as plain text of any width elsewhere."""
    console = console or Console()
    plus_minus = "±" if console.encoding.startswith("utf") else "+-"
    view = table(results, plain=not console.is_terminal, plus_minus=plus_minus)
    if not console.is_terminal:
        console.width = 10_000
        console.width = max(100, console.measure(view).maximum)
    rounds = f"{results.rounds} rounds" if results.rounds > 1 else "1 round"
    seeds = f"mean {plus_minus} standard error of {results.seeds} seeds" if results.seeds > 1 else "1 seed"
    console.print(f"Cumulative regret after {rounds}, {seeds}", style="bold", highlight=False)
    console.print(view)
    console.print(NOTE, highlight=False)


# The figure


@dataclass(frozen=True)
class Line:
    """A curve of one panel, with its band of one standard error."""

    label: str
    colour: str
    dash: tuple[int, ...]
    mean: FloatArray
    low: FloatArray
    high: FloatArray


def lines(results: Results, size: int) -> list[Line]:
    """Return the curves of one panel: every method, and the floors under them."""
    found = []
    for method in results.methods:
        mean, error = mean_and_error(results.curves(method, size, "mean"))
        band = np.nan_to_num(error)
        found.append(Line(METHODS[method].label, COLOURS.get(method, OTHERS), (), mean, mean - band, mean + band))
    for one in results.floors:
        if one.size == size and one.start == "same":
            mean, dash = np.array(one.mean), (6, 3) if one.explore == "replaced" else (2, 2)
            found.append(Line(FLOORS[one.explore, one.start], "#000000", dash, mean, mean, mean))
    return found


def figure(results: Results) -> "alt.ConcatChart":
    """Plot mean ± 1 standard error of the mean over members by round, with a panel for each population size."""
    require_extra()
    import altair as alt

    panels = {size: lines(results, size) for size in results.sizes}
    everything = np.concatenate([line.mean for panel in panels.values() for line in panel])
    # On a log scale: the methods differ by factors, and the regret of the first round keeps them above zero.
    low, high = 0.8 * max(everything.min(), 1e-3), 1.15 * max(everything.max(), 2e-3)
    charts = [_panel(size, panel, (low, high), first=not i) for i, (size, panel) in enumerate(panels.items())]
    seeds = f"mean ± 1 standard error of {results.seeds} seeds" if results.seeds > 1 else "1 seed"
    subtitle = f"Average over members; {seeds}. Floor: what a perfect explorer reaches."
    chart: alt.ConcatChart = (
        alt.concat(*charts, columns=3, spacing=20)
        .properties(
            title=alt.Title(
                "Cumulative regret on the sin/cos task",
                subtitle=subtitle,
                anchor="start",
                offset=14,
            ),
            background="white",
            padding=12,
        )
        .configure_view(stroke=None)
        .configure_axis(gridColor="#eeeeee", domainColor="#999999", tickColor="#999999", labelColor="#444444")
        .configure_title(fontSize=15, subtitleColor="#444444")
    )
    return chart


def _panel(size: int, panel: list[Line], domain: tuple[float, float], first: bool) -> Any:
    import altair as alt

    low, high = domain
    rounds = len(panel[0].mean)
    rows = [
        {
            "method": line.label,
            "round": t + 1,
            "mean": round(float(mean), 6),
            "low": round(float(max(line.low[t], low)), 6),
            "high": round(float(line.high[t]), 6),
        }
        for line in panel
        for t, mean in enumerate(line.mean)
    ]
    names = [line.label for line in panel]
    colour = alt.Color("method:N", legend=None, scale=alt.Scale(domain=names, range=[one.colour for one in panel]))
    dash = alt.StrokeDash(
        "method:N",
        legend=None,
        scale=alt.Scale(domain=names, range=[list(one.dash) or [1, 0] for one in panel]),
    )
    x = alt.X(
        "round:Q",
        title="round",
        scale=alt.Scale(domain=[1, max(2, rounds)], nice=False),
        axis=alt.Axis(grid=False, tickMinStep=1, tickCount=6, format="d"),
    )
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    y = alt.Y(
        "mean:Q",
        title="cumulative regret (log scale)" if first else None,
        scale=scale,
        axis=alt.Axis(values=[tick for tick in TICKS if low <= tick <= high], format="~g", domain=False, ticks=False),
    )
    base = alt.Chart(alt.InlineData(values=rows))
    band = base.mark_area(opacity=0.18).encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour)
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash)
    ends = [
        {
            "method": one.label,
            "round": rounds,
            "mean": float(position),
            "text": f"{one.label}  {one.mean[-1]:.2f}",
        }
        for one, position in zip(panel, _spread([one.mean[-1] for one in panel], low, high), strict=True)
    ]
    text = (
        alt.Chart(alt.InlineData(values=ends))
        .mark_text(align="left", baseline="middle", dx=6, fontSize=LETTERS)
        .encode(x=x, y=y, text="text:N", color=colour)
    )
    return alt.layer(band, line, text).properties(
        width=WIDTH, height=HEIGHT, title=alt.Title(f"Population of {size}", fontSize=13, anchor="start")
    )


def _spread(values: list[float], low: float, high: float) -> FloatArray:
    """Return positions of labels on a log axis: as near to `values` as possible without overlap."""
    gap = 1.2 * LETTERS / HEIGHT * math.log(high / low)
    wanted = np.log(np.maximum(values, low))
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    positions = np.empty(len(wanted))
    positions[order] = isotonic_regression(wanted[order] - steps).x + steps
    return np.exp(positions)


def write_figure(results: Results, directory: str | Path) -> list[Path]:
    """Write the figure as PNG and SVG, and as Vega-Lite, which any Vega editor opens."""
    chart = figure(results)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"regret.{kind}" for kind in ("png", "svg", "vl.json")]
    chart.save(paths[0], scale_factor=2)
    chart.save(paths[1])
    paths[2].write_text(chart.to_json(), "utf-8")
    return paths
