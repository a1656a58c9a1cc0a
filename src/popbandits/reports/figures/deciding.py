"""Cost of decisions, and decisions without the method's model."""

from collections.abc import Mapping, Sequence

import numpy as np

from popbandits.reports.figures.figure import (
    BLUE,
    RED,
    TICK_FORMAT,
    Figure,
    legend_scale,
    log_ticks,
    record,
    rounds_axis,
    thin,
)
from popbandits.reports.run import Run, shorten
from popbandits.wording import counted

MODEL, SAMPLED = "by the method", "fall-back"


def deciding(groups: Mapping[str, Sequence[Run]]) -> Figure | None:
    """Draw the seconds for each configuration that was explored; None if none are on record."""
    import altair as alt

    runs = [run for group in groups.values() for run in group]
    points, reasons = [], 0
    for group, members in groups.items():
        for run in members:
            keys = sorted((round_, member) for member, round_ in run.deciding if run.history.find((member, round_)))
            fallbacks = {o.key: o.fallback for o in run.history if o.fallback is not None}
            reasons += len(fallbacks)
            for i in thin(np.arange(len(keys)), 2_000 // len(runs)):
                round_, member = keys[i]
                reason = fallbacks.get((member, round_))
                points.append(
                    record(
                        round=round_,
                        seconds=max(1e-5, float(run.deciding[member, round_])),
                        kind=MODEL if reason is None else SAMPLED,
                        group=group,
                        who=f"member {member}, round {round_}",
                        reason=None if reason is None else shorten(reason, 190),
                    )
                )
    if not points:
        return None
    last = max(run.scores.shape[0] - 1 for run in runs)
    several = len(groups) > 1
    seconds = [point["seconds"] for point in points]
    ticks = log_ticks(min(seconds) / 2, 2 * max(seconds))
    y = alt.Y(
        "seconds:Q",
        title="seconds per configuration",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(format=TICK_FORMAT, values=ticks),
    )
    kinds = legend_scale([MODEL, SAMPLED], [BLUE, RED])
    colour = alt.Color(
        "group:N" if several else "kind:N", title=None, scale=legend_scale(list(groups)) if several else kinds
    )
    shapes = alt.Scale(domain=[MODEL, SAMPLED], range=["circle", "triangle-up"])
    shape = alt.Shape("kind:N", title=None, scale=shapes, legend=None if several else alt.Legend())
    tip = [alt.Tooltip("group:N", title="method")] if several else []
    chart = (
        alt.Chart(alt.NamedData("decisions"))
        .mark_point(filled=True, size=32, opacity=0.7)
        .encode(
            x=rounds_axis(last),
            y=y,
            color=colour,
            shape=shape,
            tooltip=[
                *tip,
                alt.Tooltip("who:N", title="for"),
                alt.Tooltip("seconds:Q", format=".3~g"),
                alt.Tooltip("reason:N", title="reason for the fall-back"),
            ],
        )
        .properties(width=760, height=170)
    )
    spent = [seconds for run in runs for seconds in run.deciding.values()]
    total = len(spent)
    part = "" if len(points) == total else f" {len(points):,} of them are drawn."
    fell = "none fell back to sampling" if not reasons else f"{reasons:,} fell back to sampling (triangles)"
    caption = (
        f"{counted(total, 'configuration was', 'configurations were')} explored, in {sum(spent):.3g} s altogether "
        f"(median {np.median(spent):.2g} s); {fell}.{part}"
    )
    return Figure("deciding", "What deciding cost", caption, chart, {"decisions": points})
