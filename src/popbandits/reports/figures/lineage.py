"""The lineage tree: the parent of every interval."""

from typing import Any

import numpy as np

from popbandits.history import Key, Observation
from popbandits.reports.figures.figure import (
    BLUE,
    GREY,
    MAX_MARKS,
    RED,
    Figure,
    Record,
    fade,
    legend_scale,
    record,
    rounds_axis,
    thin,
)
from popbandits.reports.run import Run
from popbandits.wording import number

KEPT, COPIED, WON, FAILED = "continues", "copies weights", "winning lineage", "failed"


def lineage(run: Run) -> Figure:
    """Draw a row for each member, and a line from every interval to those that started from its weights."""
    import altair as alt

    branches = [o for o in run.history if o.parent is not None and o.key not in run.winning]
    copies = np.array([o.parent is not None and o.parent[0] != o.member for o in branches], bool)
    won = [o for o in run.history.lineage() if o.parent is not None]
    room = max(0, MAX_MARKS - len(won))
    kept = {int(i) for i in thin(np.flatnonzero(copies), room)}
    kept |= {int(i) for i in thin(np.flatnonzero(~copies), max(0, room - len(kept)))}
    edges = [*(_edge(run, branches[i]) for i in sorted(kept)), *(_edge(run, o) for o in _thin(won))]
    failed = [o for o in run.history if o.failed]
    lost = [
        record(member=o.member, round=o.round, kind=FAILED, who=f"member {o.member}, round {o.round}: {o.status}")
        for o in (failed[i] for i in thin(np.arange(len(failed)), 500))
    ]
    rounds, members = run.scores.shape
    x = rounds_axis(rounds - 1)
    y = alt.Y(
        "member:Q",
        title="member",
        scale=alt.Scale(domain=[-0.5, members - 0.5], reverse=True, nice=False),
        axis=alt.Axis(grid=False, tickMinStep=1, format="d", tickCount=min(members, 12)),
    )
    kinds = {WON: RED, COPIED: BLUE, KEPT: GREY} | ({FAILED: "#A08500"} if lost else {})
    colour = alt.Color("kind:N", title=None, scale=legend_scale(list(kinds), list(kinds.values())))
    tip = [
        alt.Tooltip("who:N", title="interval"),
        alt.Tooltip("start:N", title="started from"),
        alt.Tooltip("score:N"),
        alt.Tooltip("config:N", title="hyperparameters"),
    ]
    base = alt.Chart(alt.NamedData("edges"))
    line = base.mark_rule().encode(
        x=alt.X("from_round:Q", title="round"),
        x2="round:Q",
        y=alt.Y("from_member:Q"),
        y2="member:Q",
        color=colour,
        size=alt.Size("width:Q", scale=None, legend=None),
        opacity=fade(0.85, 0.1),
        tooltip=tip,
    )
    dots = base.mark_circle(size=22).encode(x=x, y=y, color=colour, opacity=fade(0.9, 0.1), tooltip=tip)
    crosses = (
        alt.Chart(alt.NamedData("failed"))
        .mark_point(shape="cross", angle=45, size=60, filled=True, opacity=1)
        .encode(x=x, y=y, color=colour, tooltip=alt.Tooltip("who:N", title="interval"))
    )
    height = int(np.clip(22 * members, 120, 420))
    chart = alt.layer(line, dots, crosses).properties(width=760, height=height)
    count = int(copies.sum()) + sum(o.parent is not None and o.parent[0] != o.member for o in won)
    part = (
        "" if len(edges) == len(branches) + len(won) else f" {len(edges):,} of {len(branches) + len(won):,} are drawn."
    )
    caption = (
        f"A line leads from an interval to those that began with its weights; {count:,} were copied from another "
        f"member.{part}"
    )
    return Figure("lineage", "Lineages", caption, chart, {"edges": edges, "failed": lost}, by_member=True)


def _thin(won: list[Observation]) -> list[Observation]:
    return [won[i] for i in thin(np.arange(len(won)))]


def _edge(run: Run, o: Observation) -> Record:
    parent: Key = o.parent or o.key
    kind: Any = WON if o.key in run.winning else KEPT if parent[0] == o.member else COPIED
    return record(
        from_member=parent[0],
        from_round=parent[1],
        member=o.member,
        round=o.round,
        kind=kind,
        width={WON: 3.0, COPIED: 1.4, KEPT: 1.0}[kind],
        who=f"member {o.member}, round {o.round}",
        start=f"member {parent[0]}, round {parent[1]}",
        score=number(o.score),
        config=run.describe(o.key),
    )
