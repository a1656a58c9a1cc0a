"""Learning curves: every member of a run, and the best of them."""

from functools import lru_cache
from typing import Any

import numpy as np

from popbandits.reports.figures.figure import (
    BLUE,
    GREEN,
    GREY,
    POINTS,
    RED,
    TICK,
    WHO,
    Figure,
    fade,
    legend_scale,
    record,
    rounds_axis,
    thin,
)
from popbandits.reports.run import Drawn
from popbandits.typing import FloatArray
from popbandits.wording import counted

CURVES = 60
"""Maximum members drawn one by one."""
CURVES_OF_ALL = ("best member of the round", "mean of the members")


def learning(run: Drawn, points: int = 2 * POINTS) -> Figure:
    """Draw the score of every member after each round (about `points` of them at most), their mean, and the best."""
    scores = run.scores
    rounds, members = scores.shape
    drawn = thin(np.arange(members), CURVES)
    shown = thin(np.arange(rounds), max(points // CURVES, points // len(drawn)))
    lines = [
        record(
            member=int(m),
            round=int(t),
            score=float(scores[t, m]),
            config=run.describe((int(m), int(t))) if np.isfinite(scores[t, m]) else None,
        )
        for m in drawn
        for t in shown
        if np.isfinite(scores[t, m])
    ]
    curves = dict(zip(CURVES_OF_ALL, (run.best_by_round, _mean(scores)), strict=True))
    summary = [
        record(round=int(t), score=float(values[t]), curve=name) for name, values in curves.items() for t in shown
    ]
    won = [
        record(round=round_, score=float(score), member=member)
        for member, round_, score in (run.lineage[i] for i in thin(np.arange(len(run.lineage)), 500))
    ]
    part = "" if len(drawn) == members else f" {len(drawn)} of {counted(members, 'member')} are drawn."
    part += "" if len(shown) == rounds else f" {len(shown):,} of {rounds:,} rounds are drawn."
    better = "More" if run.sign > 0 else "Less"
    caption = (
        f"{better} is better. The winning lineage leads to the best score: it changes member where "
        f"weights were copied.{part}"
    )
    return Figure(
        "learning",
        "Learning curves",
        caption,
        _layers(run.horizon),
        {"members": lines, "summary": summary, "won": won},
        by_member=True,
    )


@lru_cache(16)  # A page that follows a run draws the same layers repeatedly.
def _layers(horizon: int) -> Any:
    import altair as alt

    x = rounds_axis(horizon)
    y = alt.Y("score:Q", title="score", scale=alt.Scale(zero=False), axis=alt.Axis(format=TICK))
    names = [*CURVES_OF_ALL, "winning lineage", "a member"]
    colour = alt.Color(
        "curve:N", title=None, scale=legend_scale(names, [BLUE, GREEN, RED, GREY]), legend=alt.Legend(columns=4)
    )
    tip = [alt.Tooltip("who:N", title="interval"), alt.Tooltip("score:Q", format=".6~g")]
    each = alt.Chart(alt.NamedData("members")).transform_calculate(curve="'a member'", who=WHO)
    return alt.layer(
        each.mark_line(strokeWidth=1.2).encode(x=x, y=y, color=colour, detail="member:N", opacity=fade(0.45)),
        each.mark_circle(size=26).encode(
            x=x,
            y=y,
            color=colour,
            opacity=fade(0.35, 0.03),
            tooltip=[*tip, alt.Tooltip("config:N", title="hyperparameters")],
        ),
        alt.Chart(alt.NamedData("summary"))
        .transform_calculate(who="datum.curve + ', round ' + datum.round")
        .mark_line(strokeWidth=2.5)
        .encode(x=x, y=y, color=colour, tooltip=tip),
        alt.Chart(alt.NamedData("won"))
        .transform_calculate(curve="'winning lineage'", who=WHO)
        .mark_circle(size=32, opacity=1)
        .encode(x=x, y=y, color=colour, tooltip=tip),
    ).properties(width=760, height=300)


def _mean(scores: FloatArray) -> FloatArray:
    """Return the mean over the members that completed each round."""
    count = np.isfinite(scores).sum(axis=1)
    # Shares are summed: the sum of two scores may overflow.
    return np.where(count > 0, np.nansum(scores / np.maximum(count, 1)[:, None], axis=1), np.nan)
