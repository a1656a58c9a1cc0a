"""The model's view: predictions of the method's Gaussian process, along each number, for each label."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from popbandits.basics.typing import IntArray
from popbandits.errors import PopbanditsError
from popbandits.explorers.pb2_mix import PB2Mix
from popbandits.explorers.surrogate import ModelExplorer, Models, Surrogate, one_blas_thread
from popbandits.history import Observation, Rows
from popbandits.methods import named_class
from popbandits.models.acquisition import UpperConfidenceBound
from popbandits.models.gp import NotFittedError
from popbandits.reports.figures import charts
from popbandits.reports.figures.figure import Figure, Record, most_used, record, thin
from popbandits.reports.figures.theme import BLUE, GREY, RED
from popbandits.reports.run import Run, label_names, shorten
from popbandits.space import Points
from popbandits.space.parameters import Numerical

MAX_LABELS, MAX_NUMBERS = 10, 6
"""Maximum labels and numbers drawn."""
GRID_POINTS = 41
"""Points along a curve."""


@dataclass(frozen=True)
class Slice:
    """One label to draw; the other labels are those of the best member."""

    variable: int | None
    label: int
    name: str
    labels: IntArray


def explorer_of(run: Run) -> tuple[ModelExplorer, bool]:
    """Return the run's method if it is ours and has a model, else PB2-Mix; and whether it is the run's own."""
    made = run.about.get("method") or {}
    # Only what is registered: a report imports nothing that a stored file names.
    kind = named_class("method", made)
    if kind is None or not issubclass(kind, ModelExplorer):
        return PB2Mix(), False
    try:
        made_again: ModelExplorer = kind(**made.get("settings", {}))
        return made_again, True
    except (PopbanditsError, TypeError):  # Written by a version with other settings.
        return PB2Mix(), False


def model_view(run: Run) -> Figure | None:
    """Draw posterior mean and band along each number, a row of panels for each label; None if there is none."""
    explorer, own = explorer_of(run)
    now, space = run.final, run.space
    if now is None or not space.numerical:
        return None
    models = Models(explorer, space, run.history)
    point = space.encode([now.config])
    slices, numbers = _slices(run, models.rows, point), list(range(min(MAX_NUMBERS, len(space.numerical))))
    here = space.codes(point.x)[0]
    data: dict[str, list[Record]] = {f"number{j}": [] for j in numbers}
    drawn: set[tuple[str, int]] = set()
    with one_blas_thread():
        for one in slices:
            for j, curve in _curves(run, models, one, point, now, numbers):
                data[f"number{j}"] += curve
                drawn.add((one.name, j))
    ends = [row[end] for rows in data.values() for row in rows for end in ("low", "high") if end in row]
    if not ends:  # No curves, or all overflow.
        return None
    for j in numbers:
        for one in slices:
            data[f"number{j}"] += _seen(run, models.rows, one, j)
            # A row of panels even if it is empty, or the columns would not match.
            value = float(here[j]) if (one.name, j) in drawn else None
            data[f"number{j}"].append(record(row=one.name, kind="here", value=value))
    seen = [row["change"] for rows in data.values() for row in rows if "change" in row]
    # Outliers would flatten the curves; they are drawn on the border.
    inner = np.quantile(seen, [0.03, 0.97]) if seen else np.zeros(2)
    domain = [float(min(*ends, inner[0])), float(max(*ends, inner[1]))]
    width = (740 - 40 * len(numbers)) // max(len(numbers), 2)
    rows = [one.name for one in slices]
    columns = [_column(space.numerical[j], f"number{j}", domain, rows, j == 0, width) for j in numbers]
    whose = f"{run.method}'s" if own else "the run's method has no model of its own, so PB2-Mix's"
    caption = (
        f"Expected change in score in the next round (line) ± 1 standard deviation (band): {whose} model, fitted as it "
        "would be now. All other values are the best member's (dashed: its value). Dots: "
        f"observations.{_cut(run, slices, numbers)}"
    )
    return Figure("model", "What the model expects now", caption, alt.hconcat(*columns, spacing=16), data)


def _slices(run: Run, rows: Rows, point: Points) -> list[Slice]:
    space = run.space
    if not space.categorical:
        return [Slice(None, 0, "", point.h[0])]
    found = []
    for v, variable in enumerate(space.categorical):
        for i, name in enumerate(label_names(variable.labels)):
            # An inactive choice of the best member gets a label, in case this one activates it.
            labels = np.where(point.h[0] < 0, 0, point.h[0])
            labels[v] = i
            prefix = f"{shorten(variable.name, 20)}: " if len(space.categorical) > 1 else ""
            found.append(Slice(v, i, prefix + name, labels))
    counts = [int((rows.points.h[:, s.variable] == s.label).sum()) for s in found]
    return [found[i] for i in most_used(np.array(counts), MAX_LABELS)]


def _curves(
    run: Run, models: Models, one: Slice, point: Points, now: Observation, numbers: list[int]
) -> Iterator[tuple[int, list[Record]]]:
    """Yield each number and the posterior along it, where it is active."""
    space = run.space
    try:
        model = models.at(one.labels)
    except NotFittedError:
        return
    centre, scale = _units(models, one.labels)
    bound = model.bound(run.history, now)
    middle = np.where(np.isnan(point.x[0]), 0.5, point.x[0])
    for j in numbers:
        grid = space.grids.get(j, np.linspace(0, 1, GRID_POINTS))
        x = np.tile(middle, (len(grid), 1))
        x[:, j] = grid
        points = space.activate(Points(space.snap(x), np.tile(one.labels, (len(x), 1))))
        active = np.isfinite(points.x[:, j]) & space.legal(points)
        if active.any():
            yield j, _curve(one.name, model, points[active], j, bound, run.sign * centre, run.sign * scale)


def _units(models: Models, labels: IntArray) -> tuple[float, float]:
    """Return mean and deviation of the changes that the model was fitted to: it predicts standardised ones."""
    mask = models.explorer.relevant(models.rows, labels)
    rows = models.rows if mask is None else models.rows[mask]
    y = rows[np.isfinite(rows.change) | rows.failed].targets()
    return float(y.mean()), float(y.std())


def _curve(
    row: str, model: Surrogate, points: Points, j: int, bound: UpperConfidenceBound, centre: float, scale: float
) -> list[Record]:
    mean, std = model.posterior.predict(bound.inputs(points))
    values = model.space.codes(points.x)[:, j]
    mean, band = centre + scale * mean, abs(scale) * std
    return [
        record(row=row, kind="expected", value=float(v), mean=float(m), low=float(m - b), high=float(m + b))
        for v, m, b in zip(values, mean, band, strict=True)
    ]


def _seen(run: Run, rows: Rows, one: Slice, j: int) -> list[Record]:
    """Return the observations with the label, as far as the model looks back."""
    mask = np.isfinite(rows.change) & ~rows.guessed & np.isfinite(rows.points.x[:, j])
    if one.variable is not None:
        mask &= rows.points.h[:, one.variable] == one.label
    values = run.space.codes(rows.points.x)[:, j]
    return [
        record(
            row=one.name,
            value=float(values[i]),
            change=float(run.sign * rows.change[i]),
            kind="seen",
            who=f"member {rows.member[i]}, round {rows.round[i]}",
        )
        for i in thin(np.flatnonzero(mask), 150)
    ]


def _column(number: Numerical, source: str, domain: list[float], rows: list[str], first: bool, width: int) -> Any:
    """Draw the panels of a number, one below the other."""
    across = charts.number_axis(number, grid=False, labelOverlap=True)
    x = alt.X("value:Q", title=None, scale=charts.number_scale(number), axis=across)
    scale = alt.Scale(domain=domain, nice=False, clamp=True)
    axis = alt.Axis(tickCount=3, format=charts.TICK_FORMAT) if first else alt.Axis(tickCount=3, labels=False)
    y = alt.Y("mean:Q", title=None, scale=scale, axis=axis)
    colour = charts.colour("kind", {"expected": BLUE, "seen": GREY})
    base = alt.Chart()
    expected, seen = (base.transform_filter(f"datum.kind === '{kind}'") for kind in ("expected", "seen"))
    value = ("value", "value", ".4~g")
    seen_tip = charts.tooltips(("who", "interval"), value, ("change", "change", "+.4~g"))
    expected_tip = charts.tooltips(
        value, ("mean", "expected", "+.4~g"), ("low", "from", "+.4~g"), ("high", "to", "+.4~g")
    )
    layers = [
        expected.mark_area(opacity=0.22).encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour),
        seen.mark_circle(size=14, opacity=0.55).encode(
            x=x, y=alt.Y("change:Q", scale=scale), color=colour, tooltip=seen_tip
        ),
        expected.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, tooltip=expected_tip),
        base.transform_filter("datum.kind === 'here' && isValid(datum.value)")
        .mark_rule(strokeDash=[4, 3], color=RED, strokeWidth=1.2)
        .encode(x=x),
    ]
    header = alt.Header(title=None, labels=first and len(rows) > 1, labelAngle=-90, labelFontSize=11, labelLimit=110)
    return (
        alt.layer(*layers, data=alt.NamedData(source))
        .properties(width=width, height=84)
        .facet(row=alt.Row("row:N", sort=rows, header=header), spacing=10)
        .properties(title=charts.panel_title(number.name))
    )


def _cut(run: Run, slices: list[Slice], numbers: list[int]) -> str:
    labels = sum(len(variable.labels) for variable in run.space.categorical)
    total = len(run.space.numerical)
    part = "" if len(slices) >= labels else f" {len(slices)} of {labels} labels are drawn, those used most."
    return part + ("" if len(numbers) == total else f" {len(numbers)} of {total} numbers are drawn.")
