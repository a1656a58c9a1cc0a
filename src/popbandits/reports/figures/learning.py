"""Learning curves: every member of a run, and the best of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import altair as alt
import numpy as np

from popbandits.basics.typing import FloatArray, IntArray
from popbandits.basics.wording import counted, rounded
from popbandits.reports.axes import time_unit
from popbandits.reports.data import RunData
from popbandits.reports.figures import charts
from popbandits.reports.figures.far import Far, scale_ends
from popbandits.reports.figures.figure import MAX_MARKS, Figure, Record, record, thin
from popbandits.reports.figures.theme import BLUE, GREEN, GREY, RED
from popbandits.reports.run import MAX_LABEL_CHARS, shorten

MAX_CURVES = 60
"""Maximum members drawn one by one."""
STEEP_SHARE = 0.75
"""Share of the whole gain that a steep start makes."""
SUMMARY_CURVES = ("best member of the round", "mean of the members")


@dataclass(frozen=True)
class Cells:
    """The cells of a table of rounds and members that are drawn."""

    shape: tuple[int, int]
    drawn: IntArray
    """Members drawn one by one."""
    shown: IntArray
    """Rounds that are drawn."""
    best: IntArray
    """The best member by score of each of these rounds; -1 where no member completed it."""
    each: tuple[IntArray, IntArray]
    """Rounds and members of the intervals drawn one by one: those that completed."""
    won: tuple[IntArray, IntArray]
    """Rounds and members along the winning lineage."""

    @staticmethod
    def of(run: RunData, points: int) -> "Cells":
        """Choose the cells of a run: about `points` drawn one by one."""
        scores = run.scores
        rounds, members = scores.shape
        drawn = thin(np.arange(members), MAX_CURVES)
        shown = thin(np.arange(rounds), max(points // MAX_CURVES, points // len(drawn)))
        member, round_ = np.nonzero(np.isfinite(scores[np.ix_(shown, drawn)]).T)
        won = np.array([step[:2] for step in run.lineage], np.int64).reshape(-1, 2)
        won = won[thin(np.arange(len(won)), 500)]
        best = run.best_members[shown]
        return Cells((rounds, members), drawn, shown, best, (shown[round_], drawn[member]), (won[:, 1], won[:, 0]))

    def columns(self, table: FloatArray) -> dict[str, FloatArray]:
        """Return the values of a table in the order of the figure's data; the summary has the best, then the means."""
        best = np.where(self.best >= 0, table[self.shown, self.best], np.nan)
        means = _mean(table[self.shown])
        return {"members": table[self.each], "summary": np.concatenate([best, means]), "won": table[self.won]}


def learning(run: RunData, points: int = 2 * MAX_MARKS) -> Figure:
    """Draw the score of every member after each round (about `points` of them at most), their mean, and the best."""
    cells = Cells.of(run, points)
    length, unit = time_unit(float(np.nanmax(run.spent["seconds"]))) if "seconds" in run.spent else (1.0, "s")
    fields = {"score": run.scores}
    for name, field, divisor in (("steps", "steps", 1.0), ("seconds", "time", length)):
        if name in run.spent:
            fields[field] = np.where(np.isfinite(run.scores), run.spent[name] / divisor, np.nan)
    columns = {field: cells.columns(table) for field, table in fields.items()}

    def rows(source: str, **known: Sequence[Any]) -> list[Record]:
        together = known | {field: column[source].tolist() for field, column in columns.items()}
        return [record(**dict(zip(together, row, strict=True))) for row in zip(*together.values(), strict=True)]

    round_, member = (part.tolist() for part in cells.each)
    won_round, won_member = (part.tolist() for part in cells.won)
    configs = [run.describe(key) for key in zip(member, round_, strict=True)]
    rounds = cells.shown.tolist()
    data = {
        "members": rows("members", member=member, round=round_, config=configs),
        "summary": rows("summary", round=2 * rounds, curve=[name for name in SUMMARY_CURVES for _ in rounds]),
        "won": rows("won", member=won_member, round=won_round),
    }
    far = Far.of(run)
    axes = {**_axes(run.metrics, fields, unit), "steep": _steep(run), "far": 0 if far is None else far.count}
    panels = _layers(run.horizon, run.sign, None if far is None else rounded(far.limit))  # As it is in the data.
    return Figure("learning", "Learning curves", _caption(run, cells, far), panels, data, True, axes)


def _steep(run: RunData) -> int:
    """Return the round by which the best score had made most of its gain, if that was early; else 0."""
    best = np.fmax.accumulate(run.sign * run.best_by_round)
    early = best[: (len(best) + 1) // 2] >= best[0] + STEEP_SHARE * (best[-1] - best[0])
    return int(np.argmax(early))


def metric_values(run: RunData, name: str, points: int = 2 * MAX_MARKS) -> dict[str, list[float | None]]:
    """Return a metric in the order of the data of `learning`; None where it was not reported."""
    found = Cells.of(run, points).columns(run.metric(name))
    return {source: [rounded(value, 5) for value in values.tolist()] for source, values in found.items()}


def _caption(run: RunData, cells: Cells, far: Far | None) -> str:
    rounds, members = cells.shape
    part = "" if len(cells.drawn) == members else f" {len(cells.drawn)} of {counted(members, 'member')} are drawn."
    part += "" if len(cells.shown) == rounds else f" {len(cells.shown):,} of {rounds:,} rounds are drawn."
    part += "" if far is None else f" {far}"
    better = "Higher" if run.sign > 0 else "Lower"
    return (
        f"{better} scores are better. The winning lineage leads to what is handed over: it changes member where "
        f"weights were copied.{part}"
    )


def _axes(metrics: Sequence[str], fields: Mapping[str, Any], unit: str) -> Mapping[str, Any]:
    """Return the other axes of the figure: those that have data."""
    known = (
        ("steps", "steps", "steps along the lineage", "~s"),
        ("time", "training time", f"training time along the lineage, {unit}", charts.TICK_FORMAT),
    )
    x = {}
    for field, label, title, form in known:
        if field in fields:
            encoding = {"field": field, "type": "quantitative", "title": title, "scale": {"nice": False}}
            x[field] = {"label": label, "encoding": encoding | {"axis": {"grid": False, "format": form}}}
    labels = {name: shorten(name, MAX_LABEL_CHARS) for name in metrics}
    y = {name: {"label": label, "title": charts.lines(label, charts.TITLE_CHARS)} for name, label in labels.items()}
    return {"x": x, "y": y}


@lru_cache(16)  # A page that follows a run draws the same layers repeatedly.
def _layers(horizon: int, sign: float, limit: float | None) -> Any:
    """Make the layers; scores that are worse than the limit, if there is one, are beyond the axis."""
    x = charts.rounds_axis(horizon)
    best, mean = SUMMARY_CURVES
    colours = {best: BLUE, mean: GREEN, "winning lineage": RED, "a member": GREY}
    colour = charts.colour("curve", colours, legend=alt.Legend(columns=4))
    order = alt.Order("round:Q")  # Along other axes a line may lead back: a copied parent may have trained less.
    tip = charts.tooltips(*charts.SCORE_TIP)
    full = charts.tooltips(*charts.SCORE_TIP, ("config", "hyperparameters"))
    summary = alt.Chart(alt.NamedData("summary")).transform_calculate(who="datum.curve + ', round ' + datum.round")
    each, won = charts.intervals("members", curve="'a member'"), charts.intervals("won", curve="'winning lineage'")
    clip, y = limit is not None, charts.score_axis(**scale_ends(sign, limit))
    shown = [
        chart if limit is None else chart.transform_filter(f"datum.score {'>=' if sign > 0 else '<='} {limit!r}")
        for chart in (each, won)
    ]
    layers = (
        each.mark_line(strokeWidth=1.2, clip=clip).encode(detail="member:N", order=order, opacity=charts.fade(0.45)),
        shown[0].mark_circle(size=26).encode(opacity=charts.fade(0.35, 0.03), tooltip=full),
        summary.mark_line(strokeWidth=2.5, clip=clip).encode(order=order, tooltip=tip),
        shown[1].mark_circle(size=32, opacity=1).encode(tooltip=tip),
    )
    drawn = (layer.encode(x=x, y=y, color=colour) for layer in layers)
    return alt.layer(*drawn).properties(width=760, height=300)


def _mean(scores: FloatArray) -> FloatArray:
    """Return the mean over the members that completed each round."""
    count = np.isfinite(scores).sum(axis=1)
    # Shares are summed: the sum of two scores may overflow.
    return np.where(count > 0, np.nansum(scores / np.maximum(count, 1)[:, None], axis=1), np.nan)
