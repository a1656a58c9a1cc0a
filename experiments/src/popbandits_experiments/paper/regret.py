"""Table and figure of the cumulative regret in the synthetic experiment (the paper's figure 3)."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from popbandits.basics.typing import FloatArray
from popbandits.reports.figures.figure import Figure, record, require_extra
from popbandits_experiments.methods import ALL_METHODS as METHODS
from popbandits_experiments.paper.results import Curve, Floor, Results

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


def figure(results: Results) -> Figure:
    """Plot mean ± 1 standard error of the mean over members by round, with a panel for each population size."""
    require_extra()
    import altair as alt

    lines = []  # Panel, label, colour, dashes, mean and error of each.
    for size in results.sizes:
        for method in results.methods:
            mean, error = mean_and_error(results.curves(method, size, "mean"))
            style = COLOURS.get(method, OTHERS), [1, 0]
            lines.append((size, METHODS[method].label, *style, mean, np.nan_to_num(error)))
        for one in results.floors:
            if one.size == size and one.start == "same":
                style = "#000000", [6, 3] if one.explore == "replaced" else [2, 2]
                mean = np.array(one.mean)
                lines.append((size, FLOORS[one.explore, one.start], *style, mean, np.zeros_like(mean)))
    # On a log scale: the methods differ by factors, and the regret of the first round keeps them above zero.
    lowest = 0.8 * max(min(mean.min() for *_, mean, _ in lines), 1e-3)
    rows = [
        record(panel=size, method=label, round=t + 1, mean=middle, low=max(middle - half, lowest), high=middle + half)
        for size, label, _, _, mean, error in lines
        for t, (middle, half) in enumerate(zip(mean.tolist(), error.tolist(), strict=True))
    ]
    _, labels, colours, dashes, *_ = zip(*(line for line in lines if line[0] == results.sizes[0]), strict=True)
    legend = alt.Legend(symbolType="stroke")
    colour = alt.Color("method:N", title=None, scale=alt.Scale(domain=labels, range=colours), legend=legend)
    dash = alt.StrokeDash("method:N", title=None, scale=alt.Scale(domain=labels, range=dashes), legend=legend)
    x = alt.X("round:Q", title="round", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False, tickMinStep=1))
    log = alt.Scale(type="log", nice=False)
    base = alt.Chart().encode(x=x, color=colour)
    band = base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", scale=log), y2="high:Q")
    line = base.mark_line().encode(y=alt.Y("mean:Q", title="cumulative regret (log scale)", scale=log), strokeDash=dash)
    panel = alt.Facet("panel:O", title="Population of", sort=results.sizes)
    layers = alt.layer(band, line, data=alt.NamedData("curves")).properties(width=250, height=330)
    seeds = f"mean ± 1 standard error of {results.seeds} seeds" if results.seeds > 1 else "1 seed"
    caption = f"Average over members; {seeds}. Floor: what a perfect explorer reaches."
    title = "Cumulative regret on the sin/cos task"
    return Figure("regret", title, caption, layers.facet(panel, columns=3), {"curves": rows})
