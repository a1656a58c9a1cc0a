"""Draw what mattered: how the gain beside others goes with each number and label (after the paper's figure 5)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from popbandits.basics.typing import FloatArray, IntArray
from popbandits.reports.figures import charts
from popbandits.reports.figures.figure import Figure, record
from popbandits.reports.figures.theme import BLUE, GREY, RED
from popbandits.reports.run import Run, label_names, shorten
from popbandits.reports.stats import MIN_POINTS, MIN_POINTS_APART, Association, association, critical, standard_error

UP, DOWN, NEITHER = "more was better", "less was better", "no clear effect"
LABEL_UP, LABEL_DOWN = "better than other labels", "worse than other labels"
COLOURS = {UP: BLUE, LABEL_UP: BLUE, DOWN: RED, LABEL_DOWN: RED, NEITHER: GREY}
OVERALL = "over all intervals"
MAX_ROWS = 40
"""Maximum effects drawn."""


@dataclass(frozen=True)
class Effect:
    """The effect of a number, or of a label, on the gain.

    Args:
        parameter: Name of the number, or the choice and its label.
        where: Which intervals it was estimated from, in words: all, or those with one label.
        found: The rank correlation; None of a label that too few configurations had.
        critical: |z| beyond which the effect is clear, corrected for all effects of the report.
        gains: Of a label, the gain of each interval with it; None of a number.
    """

    parameter: str
    where: str
    found: Association | None
    critical: float
    gains: FloatArray | None = None

    @property
    def direction(self) -> str:
        """Direction of the effect, in words."""
        up, down = (UP, DOWN) if self.gains is None else (LABEL_UP, LABEL_DOWN)
        z = 0.0 if self.found is None else self.found.z
        return NEITHER if abs(z) <= self.critical else up if z > 0 else down


def effects(runs: Sequence[Run]) -> list[Effect]:
    """Correlate the gain with one number or label each, and with numbers for each label, over runs of one space.

    A configuration counts once, with the median gain of its intervals: more intervals say nothing more about its
    values, and one crash says little. Hyperparameters in which too few configurations differ are left out.
    """
    space = runs[0].space
    tried = [_configurations(run) for run in runs]
    x, h, y = (np.concatenate(parts) for parts in zip(*tried, strict=True))
    every, labels, gains = np.concatenate([run.gains for run in runs]), [], []
    result: list[tuple[str, str, Any, FloatArray | None]] = []
    for v, variable in enumerate(space.categorical):
        trained = np.concatenate([run.rows.points.h[:, v] for run in runs])
        for i, name in enumerate(label_names(variable.labels)):
            labels.append((f"{variable.name} = {name}", h[:, v] == i, h[:, v] >= 0))
            gains.append(every[(trained == i) & np.isfinite(every)])
    for j, parameter in enumerate(space.numerical):
        active = np.isfinite(x[:, j])
        for where, mask in ((OVERALL, active), *((f"with {name}", has) for name, has, _ in labels)):
            result.append((parameter.name, where, association(x[mask & active, j], y[mask & active]), None))
    for (name, has, active), own in zip(labels, gains, strict=True):
        result.append((name, OVERALL, association(has[active].astype(float), y[active]), own))
    limit = critical(sum(found is not None for _, _, found, _ in result))
    known = (one for one in result if one[2] is not None or one[3] is not None)
    return [Effect(name, where, found, limit, own) for name, where, found, own in known]


def _configurations(run: Run) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return the numbers and labels of each configuration of a run, and its gain."""
    known = np.isfinite(run.gains)
    rows, gains = run.rows[known], run.gains[known]
    x, h = rows.points.x, rows.points.h
    groups: dict[bytes, list[int]] = {}
    for i, key in enumerate(np.hstack([x, h])):
        groups.setdefault(key.tobytes(), []).append(i)
    first = [indices[0] for indices in groups.values()]
    return x[first], h[first], np.array([np.median(gains[indices]) for indices in groups.values()])


def effects_figure(found: Sequence[Effect]) -> Figure | None:
    """Draw the effect of each number and label, and where else it is clear; None if nothing was estimated."""
    if all(e.found is None for e in found):
        return None
    wanted = [e for e in found if e.where == OVERALL or e.direction != NEITHER]
    shown = {shorten(f"{e.parameter} {e.where}".removesuffix(f" {OVERALL}"), 180): e for e in wanted[:MAX_ROWS]}
    rows = []
    for name, e in shown.items():
        gains = [] if e.gains is None else e.gains.tolist()
        mean, error = (float(np.mean(gains)) if gains else math.nan), standard_error(gains)
        z = {} if e.found is None else {"z": e.found.z, "tau": e.found.tau, "low": -e.critical, "high": e.critical}
        count = None if e.found is None else e.found.count
        beside = {"gain": mean, "from": mean - error, "to": mean + error, "intervals": len(gains) or None}
        rows.append(record(label=name, direction=e.direction, count=count, **z, **beside))
    part = "" if len(shown) == len(wanted) else f" {len(shown)} of {len(wanted)} are drawn."
    caption = (
        "Gain: the change in score beside what other members usually gained at the same score, compared with the "
        "others of the same round. Bars: Kendall's rank correlation of the gain with a number, or with having a label, "
        f"divided by its standard deviation. Ticks: p = 0.05, corrected for all comparisons. It takes "
        f"{MIN_POINTS} configurations, {MIN_POINTS_APART} of them with other values than the commonest, and ignores "
        f"the other hyperparameters.{part}"
    )
    labels = [row["label"] for row in rows if "gain" in row]
    caption += " Beside it: the mean gain with a label, ± 1 standard error." if labels else ""
    return Figure("effects", "What mattered", caption, _panels(list(shown), labels), {"effects": rows})


def _panels(names: list[str], labels: list[str]) -> Any:
    """Draw the bars with the limits beyond which they are clear and, if there are any, the mean gains with labels."""
    base, y = alt.Chart(alt.NamedData("effects")), charts.labels_axis("label", names)
    axis = alt.Axis(tickCount=5, format=charts.TICK_FORMAT)
    tip = charts.tooltips(
        ("label", "effect of"),
        ("z", "z-value", "+.3~f"),
        ("high", "clear beyond", ".3~f"),
        ("tau", "rank correlation", "+.3~f"),
        ("count", "configurations", ""),
        ("direction", "effect"),
        ("gain", "mean gain", "+.4~g"),
        ("intervals", "intervals", ""),
    )
    colour = charts.colour("direction", COLOURS)
    x = alt.X("z:Q", title="z-value", axis=axis)
    bars = base.mark_bar(cornerRadius=1).encode(x=x, y=y, color=colour, tooltip=tip)
    limits = (base.mark_tick(thickness=1.5, color=GREY).encode(x=alt.X(f"{end}:Q"), y=y) for end in ("low", "high"))
    height = charts.rows_height(names)
    panels = [alt.layer(bars, *limits).properties(width=330 if labels else 600, height=height)]
    if labels:
        only, y = base.transform_filter("isValid(datum.gain)"), charts.labels_axis("label", labels)
        x = alt.X("gain:Q", title="mean gain", axis=axis)
        dots = only.mark_circle(size=50, opacity=1).encode(x=x, y=y, color=colour, tooltip=tip)
        spread = only.mark_rule(strokeWidth=1.5).encode(x=alt.X("from:Q"), x2="to:Q", y=y)
        panels.append(alt.layer(spread, dots).properties(width=190, height=charts.rows_height(labels)))
    return alt.hconcat(*panels, spacing=22)
