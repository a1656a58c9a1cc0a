"""Cost of decisions, and decisions without the method's model."""

from collections.abc import Iterator, Mapping, Sequence

import altair as alt
import numpy as np

from popbandits.basics.wording import counted
from popbandits.reports.figures import charts
from popbandits.reports.figures.figure import Figure, Record, record, thin
from popbandits.reports.figures.theme import BLUE, RED
from popbandits.reports.run import Run, shorten

MODEL, SAMPLED = "by the method", "fall-back"
MAX_DECISIONS = 2_000
"""Maximum decisions drawn, of all runs together."""


def deciding(groups: Mapping[str, Sequence[Run]]) -> Figure | None:
    """Draw the seconds for each configuration that was explored; None if none are on record."""
    runs = [run for group in groups.values() for run in group]
    most = MAX_DECISIONS // len(runs)
    points = [point for group, members in groups.items() for run in members for point in _points(run, group, most)]
    if not points:
        return None
    last = max(run.scores.shape[0] - 1 for run in runs)
    seconds = [point["seconds"] for point in points]
    ticks = charts.log_ticks(min(seconds) / 2, 2 * max(seconds))
    axis = alt.Axis(format=charts.TICK_FORMAT, values=ticks)
    several = len(groups) > 1
    colour = charts.colour("group", list(groups)) if several else charts.colour("kind", {MODEL: BLUE, SAMPLED: RED})
    shapes = alt.Scale(domain=[MODEL, SAMPLED], range=["circle", "triangle-up"])
    tip = charts.tooltips(
        *([("group", "method")] if several else []),
        ("who", "for"),
        ("seconds", "seconds", ".3~g"),
        ("reason", "reason for the fall-back"),
    )
    chart = (
        alt.Chart(alt.NamedData("decisions"))
        .mark_point(filled=True, size=32, opacity=0.7)
        .encode(
            x=charts.rounds_axis(last),
            y=alt.Y("seconds:Q", title="seconds per configuration", scale=alt.Scale(type="log"), axis=axis),
            color=colour,
            shape=alt.Shape("kind:N", title=None, scale=shapes, legend=None if several else alt.Legend()),
            tooltip=tip,
        )
        .properties(width=760, height=170)
    )
    spent = [seconds for run in runs for seconds in run.deciding.values()]
    fallbacks = sum(o.fallback is not None for run in runs for o in run.history)
    part = "" if len(points) == len(spent) else f" {len(points):,} of them are drawn."
    fell = f"{fallbacks:,} fell back to sampling (triangles)" if fallbacks else "none fell back to sampling"
    caption = (
        f"{counted(len(spent), 'configuration was', 'configurations were')} explored, in {sum(spent):.3g} s altogether "
        f"(median {np.median(spent):.2g} s); {fell}.{part}"
    )
    return Figure("deciding", "What deciding cost", caption, chart, {"decisions": points})


def _points(run: Run, group: str, most: int) -> Iterator[Record]:
    """Yield the decisions of a run that were trained, at most so many."""
    keys = sorted((round_, member) for member, round_ in run.deciding if run.history.find((member, round_)))
    fallbacks = {o.key: o.fallback for o in run.history if o.fallback is not None}
    for round_, member in (keys[i] for i in thin(np.arange(len(keys)), most)):
        reason = fallbacks.get((member, round_))
        yield record(
            round=round_,
            seconds=max(1e-5, float(run.deciding[member, round_])),
            kind=MODEL if reason is None else SAMPLED,
            group=group,
            who=f"member {member}, round {round_}",
            reason=None if reason is None else shorten(reason, 190),
        )
