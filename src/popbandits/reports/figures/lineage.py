"""The lineage tree: the parent of every interval."""

from typing import Any

import altair as alt
import numpy as np

from popbandits.basics.wording import number
from popbandits.history import Key, Observation
from popbandits.reports.figures import charts
from popbandits.reports.figures.figure import MAX_MARKS, Figure, Record, record, thin
from popbandits.reports.figures.theme import BLUE, GREY, OCHRE, RED
from popbandits.reports.run import Run

KEPT, COPIED, WON, FAILED = "continues", "copies weights", "winning lineage", "failed"
MAX_FAILURES = 500
"""Maximum failures drawn."""


def lineage(run: Run) -> Figure:
    """Draw a row for each member, and a line from every interval to those that started from its weights."""
    branches = [o for o in run.history if o.parent is not None and o.key not in run.winning]
    copies = np.array([_is_copy(o) for o in branches], bool)
    won = [o for o in run.history.lineage() if o.parent is not None]
    room = max(0, MAX_MARKS - len(won))
    kept = thin(np.flatnonzero(copies), room).tolist()
    kept += thin(np.flatnonzero(~copies), max(0, room - len(kept))).tolist()
    edges = [_edge(run, o) for o in ([branches[i] for i in sorted(kept)] + [won[i] for i in thin(np.arange(len(won)))])]
    failed = [o for o in run.history if o.failed]
    lost = [
        record(member=o.member, round=o.round, kind=FAILED, who=f"member {o.member}, round {o.round}: {o.status}")
        for o in (failed[i] for i in thin(np.arange(len(failed)), MAX_FAILURES))
    ]
    total = len(branches) + len(won)
    part = "" if len(edges) == total else f" {len(edges):,} of {total:,} are drawn."
    caption = (
        "A line leads from an interval to those that began with its weights; "
        f"{int(copies.sum()) + sum(map(_is_copy, won)):,} were copied from another member.{part}"
    )
    rounds, members = run.scores.shape
    chart = _chart(rounds, members, bool(lost))
    return Figure("lineage", "Lineages", caption, chart, {"edges": edges, "failed": lost}, by_member=True)


def _is_copy(o: Observation) -> bool:
    return o.parent is not None and o.parent[0] != o.member


def _edge(run: Run, o: Observation) -> Record:
    parent: Key = o.parent or o.key
    kind = WON if o.key in run.winning else COPIED if _is_copy(o) else KEPT
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


def _chart(rounds: int, members: int, failures: bool) -> Any:
    x = charts.rounds_axis(rounds - 1)
    y = alt.Y(
        "member:Q",
        title="member",
        scale=alt.Scale(domain=[-0.5, members - 0.5], reverse=True, nice=False),
        axis=alt.Axis(grid=False, tickMinStep=1, format="d", tickCount=min(members, 12)),
    )
    colour = charts.colour("kind", {WON: RED, COPIED: BLUE, KEPT: GREY} | ({FAILED: OCHRE} if failures else {}))
    tip = charts.tooltips(
        ("who", "interval"), ("start", "started from"), ("score", "score"), ("config", "hyperparameters")
    )
    base = alt.Chart(alt.NamedData("edges"))
    line = base.mark_rule().encode(
        x=alt.X("from_round:Q", title="round"),
        x2="round:Q",
        y=alt.Y("from_member:Q"),
        y2="member:Q",
        color=colour,
        size=alt.Size("width:Q", scale=None, legend=None),
        opacity=charts.fade(0.85, 0.1),
        tooltip=tip,
    )
    dots = base.mark_circle(size=22).encode(x=x, y=y, color=colour, opacity=charts.fade(0.9, 0.1), tooltip=tip)
    crosses = (
        alt.Chart(alt.NamedData("failed"))
        .mark_point(shape="cross", angle=45, size=60, filled=True, opacity=1)
        .encode(x=x, y=y, color=colour, tooltip=charts.tooltips(("who", "interval"))[0])
    )
    height = int(np.clip(22 * members, 120, 420))
    return alt.layer(line, dots, crosses).properties(width=760, height=height)
