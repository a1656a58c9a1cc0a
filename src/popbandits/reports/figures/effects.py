"""Effects: rank correlations of the gain with each hyperparameter (after the paper's figure 5a and its grid)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from popbandits.reports.figures.figure import BLUE, GREY, RED, TICK_FORMAT, Figure, legend_scale, panel_title, record
from popbandits.reports.run import Run, label_names, shorten
from popbandits.reports.stats import MIN_POINTS, MIN_POINTS_APART, Association, association, critical
from popbandits.typing import FloatArray, IntArray

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
    import altair as alt

    if not found:
        return None
    several = len(runs[0].space.categorical) > 1

    def lane(effect: Effect) -> str:
        return f"{shorten(effect.variable, 20)}: {effect.label}" if several and effect.variable else effect.label

    order = list(dict.fromkeys(lane(e) for e in found))
    parameters = list(dict.fromkeys(e.parameter for e in found))
    # Labels in the order of the space, also those for which some number cannot be estimated.
    order = [ALL, *[name for name in order if name != ALL]][:MAX_LABELS]
    rows = [
        record(
            panel=parameters.index(e.parameter),
            label=lane(e),
            z=e.found.z,
            tau=e.found.tau,
            low=-e.critical,
            high=e.critical,
            direction=e.direction,
            count=e.found.count,
        )
        for e in found
        if lane(e) in order
    ]
    panels = []
    across = min(len(parameters), 4)
    limit = max(max(abs(row["z"]), row["high"]) for row in rows) * 1.05
    scale = alt.Scale(domain=[-limit, limit], nice=False, clamp=True)
    colour = alt.Color("direction:N", title=None, scale=legend_scale([UP, DOWN, NEITHER], [BLUE, RED, GREY]))
    for i, parameter in enumerate(parameters):
        base = alt.Chart(alt.NamedData("effects")).transform_filter(f"datum.panel === {i}")
        axis = alt.Axis(grid=False) if i % across == 0 else None
        y = alt.Y("label:N", title=None, scale=alt.Scale(domain=order), sort=None, axis=axis)
        bars = base.mark_bar(cornerRadius=1).encode(
            x=alt.X("z:Q", title="z-value", scale=scale, axis=alt.Axis(tickCount=5, format=TICK_FORMAT)),
            y=y,
            color=colour,
            tooltip=[
                alt.Tooltip("label:N", title="where"),
                alt.Tooltip("z:Q", title="z-value", format="+.3~f"),
                alt.Tooltip("high:Q", title="clear beyond", format=".3~f"),
                alt.Tooltip("tau:Q", title="rank correlation", format="+.3~f"),
                alt.Tooltip("count:Q", title="configurations"),
                alt.Tooltip("direction:N", title="effect"),
            ],
        )
        limits = [
            base.mark_tick(thickness=1.5, color=GREY).encode(x=alt.X(f"{end}:Q", scale=scale), y=y)
            for end in ("low", "high")
        ]
        panels.append(
            alt.layer(bars, *limits).properties(
                width=(720 - 20 * across) // max(across, 2),
                height=max(50, 22 * len(order)),
                title=panel_title(parameter),
            )
        )
    caption = (
        "Kendall's rank correlation of the change in score with one hyperparameter at a time, divided by its standard "
        "deviation, over all configurations and those with one label. Ticks: p = 0.05, corrected for all bars. "
        f"A bar needs {MIN_POINTS} configurations, {MIN_POINTS_APART} of them with other values than the commonest. "
        f"It ignores time and the other hyperparameters.{_cut(found, order, lane)}"
    )
    return Figure(
        "effects", "What mattered", caption, alt.concat(*panels, columns=across, spacing=18), {"effects": rows}
    )


def _cut(found: Sequence[Effect], order: list[str], lane: Any) -> str:
    total = len({lane(e) for e in found})
    return "" if total <= len(order) else f" {len(order)} of {total} labels are drawn."
