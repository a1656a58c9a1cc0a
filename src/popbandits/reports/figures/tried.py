"""Draw what was tried: each interval as a line across its hyperparameters, and how far members were from each other."""

import json
from typing import Any

import altair as alt
import numpy as np

from popbandits.reports.figures import charts
from popbandits.reports.figures.figure import Figure, Record, record, thin
from popbandits.reports.figures.theme import BLUE, GREY, RED
from popbandits.reports.run import Run, label_names

MAX_LINES = 500
"""Maximum intervals drawn as lines, and rounds whose distances are drawn."""
MAX_COMPARED = 64
"""Maximum members of a round whose distances are averaged."""


def tried(run: Run) -> Figure | None:
    """Draw the intervals with sliders for score and rounds, and the mean distance of configurations over the rounds."""
    rows, space, last = run.intervals, run.space, max(1, run.horizon)
    names = label_names(tuple(parameter.name for parameter in (*space.numerical, *space.categorical)))
    scores = run.sign * run.scores[rows.round, rows.member]
    shown = thin(np.flatnonzero(np.isfinite(scores)), MAX_LINES)
    if not names or not len(shown):
        return None
    counts = np.array([max(1, len(choice.labels) - 1) for choice in space.categorical])
    at = np.hstack([rows.points.x, np.where(rows.points.h < 0, np.nan, rows.points.h / counts)])
    rank = np.searchsorted(np.sort(scores[shown]), scores[shown], side="right") / len(shown)
    lines = []
    for i, better in zip(shown.tolist(), rank.tolist(), strict=True):
        member, round_ = int(rows.member[i]), int(rows.round[i])
        values = {f"value{j}": float(value) for j, value in enumerate(at[i])}
        score, config = float(run.scores[round_, member]), run.describe((member, round_))
        lines.append(record(line=i, member=member, round=round_, score=score, rank=better, config=config, **values))
    caption = (
        f"Each line is an interval ({len(lines):,} of {len(rows.round):,}): its values, from the lowest to the highest "
        "of each range, labels in their order. The sliders keep the best scores and some rounds. Below: the mean "
        "distance of two members' configurations; at 0 all train with the same, at 1 they differ as much as they can."
    )
    distances = _distances(run)
    chart = alt.vconcat(_lines(names), *([_distance(last)] if distances else []), spacing=24)
    chart.params = [
        _slider("best", "best share of scores", 1.0, 1, 0.02),
        _slider("earliest", "from round", 0, last),
        _slider("latest", "to round", last, last),
    ]
    return Figure("tried", "Configurations", caption, chart, {"tried": lines, "distances": distances})


def _slider(name: str, label: str, value: float, most: int, step: float = 1) -> alt.VariableParameter:
    bind = alt.BindRange(input="range", min=0, max=most, step=step, name=f"{label} ")
    return alt.VariableParameter(name=name, value=value, bind=bind)


def _lines(names: list[str]) -> Any:
    """Draw the intervals that the sliders keep."""
    kept = "datum.rank >= 1 - best && datum.round >= earliest && datum.round <= latest"
    legend = alt.Legend(orient="top", title="rank of the score, 1 is best")
    axis = alt.Axis(values=[0, 1], labelExpr="datum.value ? 'highest' : 'lowest'")
    return (
        charts.intervals("tried")
        .transform_filter(kept)
        .transform_fold([f"value{j}" for j in range(len(names))], as_=["field", "at"])
        .transform_calculate(index="+slice(datum.field, 5)", name=f"{json.dumps(names)}[datum.index]")
        .mark_line(strokeWidth=1.5, opacity=0.6)
        .encode(
            x=alt.X("at:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=axis),
            y=charts.labels_axis("name", names, grid=True),
            color=alt.Color("rank:Q", scale=alt.Scale(domain=[0, 1], range=[GREY, RED]), legend=legend),
            detail="line:N",
            order="index:Q",
            tooltip=charts.tooltips(*charts.SCORE_TIP, ("config", "hyperparameters")),
        )
        .properties(width=600, height=charts.rows_height(names, 40))
    )


def _distances(run: Run) -> list[Record]:
    """Return the mean distance of two members' configurations by round."""
    rows, found = run.intervals, []
    # Labels that differ are as far apart as can be, and so are an active and an inactive value.
    at = np.hstack([np.where(np.isnan(rows.points.x), 2.0, rows.points.x), rows.points.h])
    for t in thin(np.unique(rows.round), MAX_LINES).tolist():
        here = at[rows.round == t][:MAX_COMPARED]
        pairs = len(here) * (len(here) - 1)
        apart = np.abs(here[:, None] - here[None]).clip(max=1.0).mean(axis=2)
        found += [record(round=t, distance=float(apart.sum() / pairs))] if pairs else []
    return found


def _distance(last: int) -> Any:
    line = alt.Chart(alt.NamedData("distances")).mark_line(strokeWidth=2.5, color=BLUE, point={"color": BLUE})
    y = alt.Y("distance:Q", title="mean distance", axis=alt.Axis(tickCount=4))
    tip = charts.tooltips(("round", "round", ""), ("distance", "mean distance", ".3~f"))
    return line.encode(x=charts.rounds_axis(last), y=y, tooltip=tip).properties(width=600, height=110)
