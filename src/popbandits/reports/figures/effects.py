"""What mattered: t-values of regressions of the gain on each hyperparameter (the paper's figure 5a and its grid)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from popbandits.reports.figures.figure import BLUE, GREY, RED, TICK, Figure, legend_scale, panel_title, record
from popbandits.reports.run import Run, label_names, shortened
from popbandits.reports.stats import Regression, regression

ALL = "all intervals"
UP, DOWN, NEITHER = "more was better", "less was better", "no clear effect"
ROWS = 40
"""Labels of all choices together that are drawn."""


@dataclass(frozen=True)
class Effect:
    """What a hyperparameter did to the change in score, where a label held or overall."""

    parameter: str
    variable: str | None
    """The choice that is held at `label`; None overall."""
    label: str
    found: Regression

    @property
    def direction(self) -> str:
        """What it means."""
        return NEITHER if not self.found.significant else UP if self.found.t > 0 else DOWN


def effects(runs: Sequence[Run]) -> list[Effect]:
    """Regressions over all runs, of one space: of the change on one number each, overall and for each label.

    Numbers are on their own scale (log where the space says so), changes turned so that more is better.
    """
    space = runs[0].space
    x = np.concatenate([run.rows.points.x[run.measured] for run in runs])
    h = np.concatenate([run.rows.points.h[run.measured] for run in runs])
    y = np.concatenate([run.rows.change[run.measured] for run in runs])
    wanted: list[tuple[str | None, str, Any]] = [(None, ALL, np.ones(len(y), bool))]
    for v, variable in enumerate(space.categorical):
        names = label_names(variable.labels)
        wanted += [(variable.name, name, h[:, v] == i) for i, name in enumerate(names)]
    result = []
    for j, parameter in enumerate(space.numerical):
        active = np.isfinite(x[:, j])
        for variable_name, label, mask in wanted:
            found = regression(x[mask & active, j], y[mask & active])
            if found is not None:
                result.append(Effect(parameter.name, variable_name, label, found))
    return result


def effects_figure(runs: Sequence[Run], found: Sequence[Effect]) -> Figure | None:
    """A panel for each number, a bar for each label; None if nothing could be estimated."""
    import altair as alt

    if not found:
        return None
    several = len(runs[0].space.categorical) > 1

    def lane(effect: Effect) -> str:
        return f"{shortened(effect.variable, 20)}: {effect.label}" if several and effect.variable else effect.label

    order = list(dict.fromkeys(lane(e) for e in found))
    parameters = list(dict.fromkeys(e.parameter for e in found))
    # Labels in the order of the space, those that some number cannot be estimated for in their place.
    order = [ALL, *[name for name in order if name != ALL]][:ROWS]
    rows = [
        record(
            panel=parameters.index(e.parameter),
            label=lane(e),
            t=float(np.clip(e.found.t, -1e3, 1e3)),
            low=-e.found.critical,
            high=e.found.critical,
            direction=e.direction,
            count=e.found.count,
        )
        for e in found
        if lane(e) in order
    ]
    panels = []
    across = min(len(parameters), 4)
    limit = max(max(abs(row["t"]) for row in rows), min(max(row["high"] for row in rows), 4.5)) * 1.05
    scale = alt.Scale(domain=[-limit, limit], nice=False, clamp=True)
    colour = alt.Color("direction:N", title=None, scale=legend_scale([UP, DOWN, NEITHER], [BLUE, RED, GREY]))
    for i, parameter in enumerate(parameters):
        base = alt.Chart(alt.NamedData("effects")).transform_filter(f"datum.panel === {i}")
        axis = alt.Axis(grid=False) if i % across == 0 else None
        y = alt.Y("label:N", title=None, scale=alt.Scale(domain=order), sort=None, axis=axis)
        bars = base.mark_bar(cornerRadius=1).encode(
            x=alt.X("t:Q", title="t-value", scale=scale, axis=alt.Axis(tickCount=5, format=TICK)),
            y=y,
            color=colour,
            tooltip=[
                alt.Tooltip("label:N", title="where"),
                alt.Tooltip("t:Q", title="t-value", format="+.3~f"),
                alt.Tooltip("high:Q", title="p < 0.05 beyond", format=".3~f"),
                alt.Tooltip("count:Q", title="intervals"),
                alt.Tooltip("direction:N", title="so"),
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
        "The slope of a regression of the change in score on one hyperparameter at a time, by its standard error, over "
        f"all intervals and those with one label. Ticks: p = 0.05. It ignores time and the other "
        f"hyperparameters.{_cut(found, order, lane)}"
    )
    return Figure(
        "effects", "What mattered", caption, alt.concat(*panels, columns=across, spacing=18), {"effects": rows}
    )


def _cut(found: Sequence[Effect], order: list[str], lane: Any) -> str:
    total = len({lane(e) for e in found})
    return "" if total <= len(order) else f" {len(order)} of {total} labels are drawn."
