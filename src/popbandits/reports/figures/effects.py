"""Effects: rank correlations of the gain with each hyperparameter (after the paper's figure 5a and its grid)."""

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
from popbandits.reports.stats import MIN_POINTS, MIN_POINTS_APART, Association, association, critical

ALL = "all intervals"
UP, DOWN, NEITHER = "more was better", "less was better", "no clear effect"
MAX_LABELS = 40
"""Maximum labels drawn, of all choices together."""


@dataclass(frozen=True)
class Effect:
    """The effect of a hyperparameter on the change in score, with one label or overall."""

    parameter: str
    variable: str | None
    """The choice that has `label`; None overall."""
    label: str
    found: Association
    critical: float
    """|z| beyond which the effect is clear, corrected for all effects of the report."""

    @property
    def direction(self) -> str:
        """Direction of the effect, in words."""
        return NEITHER if abs(self.found.z) <= self.critical else UP if self.found.z > 0 else DOWN


def effects(runs: Sequence[Run]) -> list[Effect]:
    """Correlate the change in score with one number each, overall and for each label, over all runs of one space.

    A configuration counts once, with the median change of its intervals: more intervals say nothing more about its
    values, and one crash says little. Hyperparameters in which too few configurations differ are left out.
    """
    space = runs[0].space
    tried = [_configurations(run) for run in runs]
    x, h, y = (np.concatenate(parts) for parts in zip(*tried, strict=True))
    wanted: list[tuple[str | None, str, Any]] = [(None, ALL, np.ones(len(y), bool))]
    for v, variable in enumerate(space.categorical):
        names = label_names(variable.labels)
        wanted += [(variable.name, name, h[:, v] == i) for i, name in enumerate(names)]
    result = []
    for j, parameter in enumerate(space.numerical):
        active = np.isfinite(x[:, j])
        for variable_name, label, mask in wanted:
            found = association(x[mask & active, j], y[mask & active])
            if found is not None:
                result.append((parameter.name, variable_name, label, found))
    limit = critical(len(result))
    return [Effect(*each, limit) for each in result]


def _configurations(run: Run) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return the numbers and labels of each configuration of a run, and its change, of which more is better."""
    rows = run.rows[run.measured]
    x, h = rows.points.x, rows.points.h
    groups: dict[bytes, list[int]] = {}
    for i, key in enumerate(np.hstack([x, h])):
        groups.setdefault(key.tobytes(), []).append(i)
    first = [indices[0] for indices in groups.values()]
    return x[first], h[first], np.array([np.median(rows.change[indices]) for indices in groups.values()])


def effects_figure(runs: Sequence[Run], found: Sequence[Effect]) -> Figure | None:
    """Draw a panel for each number, with a bar for each label; None if nothing could be estimated."""
    if not found:
        return None
    several = len(runs[0].space.categorical) > 1

    def label_of(effect: Effect) -> str:
        return f"{shorten(effect.variable, 20)}: {effect.label}" if several and effect.variable else effect.label

    # Labels in the order of the space, also those for which some number cannot be estimated.
    labels = [ALL, *(name for name in dict.fromkeys(map(label_of, found)) if name != ALL)][:MAX_LABELS]
    parameters = list(dict.fromkeys(e.parameter for e in found))
    rows = [
        record(
            panel=parameters.index(e.parameter),
            label=label_of(e),
            z=e.found.z,
            tau=e.found.tau,
            low=-e.critical,
            high=e.critical,
            direction=e.direction,
            count=e.found.count,
        )
        for e in found
        if label_of(e) in labels
    ]
    limit = max(max(abs(row["z"]), row["high"]) for row in rows) * 1.05
    across = min(len(parameters), 4)
    panels = [
        _panel(i, labels, limit, first=i % across == 0).properties(
            width=(720 - 20 * across) // max(across, 2),
            height=max(50, 22 * len(labels)),
            title=charts.panel_title(parameter),
        )
        for i, parameter in enumerate(parameters)
    ]
    total = len(set(map(label_of, found)))
    part = "" if total <= len(labels) else f" {len(labels)} of {total} labels are drawn."
    caption = (
        "Kendall's rank correlation of the change in score with one hyperparameter at a time, divided by its standard "
        "deviation, over all configurations and those with one label. Ticks: p = 0.05, corrected for all bars. "
        f"A bar needs {MIN_POINTS} configurations, {MIN_POINTS_APART} of them with other values than the commonest. "
        f"It ignores time and the other hyperparameters.{part}"
    )
    chart = alt.concat(*panels, columns=across, spacing=18)
    return Figure("effects", "What mattered", caption, chart, {"effects": rows})


def _panel(index: int, labels: list[str], limit: float, first: bool) -> Any:
    """Draw the bars of a number, and the limits beyond which they are clear."""
    base = alt.Chart(alt.NamedData("effects")).transform_filter(f"datum.panel === {index}")
    scale = alt.Scale(domain=[-limit, limit], nice=False, clamp=True)
    y = charts.labels_axis("label", labels, alt.Axis(grid=False) if first else None)
    tip = charts.tooltips(
        ("label", "where"),
        ("z", "z-value", "+.3~f"),
        ("high", "clear beyond", ".3~f"),
        ("tau", "rank correlation", "+.3~f"),
        ("count", "configurations", ""),
        ("direction", "effect"),
    )
    bars = base.mark_bar(cornerRadius=1).encode(
        x=alt.X("z:Q", title="z-value", scale=scale, axis=alt.Axis(tickCount=5, format=charts.TICK_FORMAT)),
        y=y,
        color=charts.colour("direction", {UP: BLUE, DOWN: RED, NEITHER: GREY}),
        tooltip=tip,
    )
    ticks = base.mark_tick(thickness=1.5, color=GREY)
    limits = (ticks.encode(x=alt.X(f"{end}:Q", scale=scale), y=y) for end in ("low", "high"))
    return alt.layer(bars, *limits)
