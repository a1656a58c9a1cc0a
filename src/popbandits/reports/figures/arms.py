"""Arms: the labels that were chosen, their probabilities, and what they gained (the paper's figure 5b)."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from popbandits.basics.typing import FloatArray
from popbandits.reports.figures import charts
from popbandits.reports.figures.figure import Figure, Record, most_used, record, thin
from popbandits.reports.figures.theme import BLUE, DASHES, ORANGE, PALETTE
from popbandits.reports.run import Run, label_names
from popbandits.reports.stats import standard_error

HALVES = ["first half", "second half"]
MAX_LABELS = 30
"""Maximum labels drawn of a choice; of more, the most used."""


def arms(runs: Sequence[Run]) -> Figure | None:
    """Draw mean gain and times chosen in both halves, and probabilities over time, of each choice; None without any."""
    space = runs[0].space
    if not space.categorical:
        return None
    data: dict[str, list[Record]] = {}
    strips, cut, last = [], False, max(run.scores.shape[0] for run in runs) - 1
    for v, variable in enumerate(space.categorical):
        names = label_names(variable.labels)
        played = np.concatenate([run.rows.points.h[:, v] for run in runs])
        kept = most_used(np.bincount(played[played >= 0], minlength=len(names)), MAX_LABELS)
        cut |= len(kept) < len(names)
        labels = {i: names[i] for i in kept}
        data[f"arms{v}"] = [
            _bar(runs, v, i, name, half, late) for late, half in enumerate(HALVES) for i, name in labels.items()
        ]
        data[f"chances{v}"] = chances = _chances(runs, variable.name, len(names), labels)
        strips.append(_strip(v, variable.name, list(labels.values()), bool(chances), last))
    chart = alt.vconcat(*strips, spacing=30).resolve_scale(color="independent", strokeDash="independent")
    caption = (
        "Left: the mean change in score of the intervals trained with each label, ± 1 standard error, so that more is "
        "better. Middle: how often it was chosen for a member that explored."
    )
    drawn = any(data[f"chances{v}"] for v in range(len(space.categorical)))
    caption += " Right: the bandit's chance of drawing it." if drawn else " This method keeps no chances."
    caption += f" Of choices with more than {MAX_LABELS} labels, the {MAX_LABELS} most used are drawn." if cut else ""
    return Figure("arms", "Labels chosen, and what they gained", caption, chart, data)


def _bar(runs: Sequence[Run], v: int, label: int, name: str, half: str, late: int) -> Record:
    """Return the gains measured with a label in one half of the runs, and how often it was chosen there."""
    gains: list[float] = []
    chosen = 0
    for run in runs:
        rows = run.rows
        trained = (rows.points.h[:, v] == label) & ((rows.round >= run.scores.shape[0] / 2) == bool(late))
        gains += rows.change[trained & run.measured].tolist()
        keys = zip(rows.member[trained].tolist(), rows.round[trained].tolist(), strict=True)
        chosen += sum(key in run.explored for key in keys)
    mean, error = float(np.mean(gains)) if gains else float("nan"), standard_error(gains)
    return record(
        label=name, half=half, gain=mean, low=mean - error, high=mean + error, count=len(gains), chosen=chosen
    )


def _chances(runs: Sequence[Run], variable: str, count: int, labels: dict[int, str]) -> list[Record]:
    """Return the mean probabilities over the runs and decisions of a round."""
    found: dict[int, list[FloatArray]] = {}
    for run in runs:
        for o in run.history:
            chances = o.decision.get("probabilities", {}).get(variable)
            if chances is not None and len(chances) == count and o.key in run.explored:
                found.setdefault(o.round, []).append(np.array(chances))
    rounds = sorted(found)
    shown = [rounds[i] for i in thin(np.arange(len(rounds)), max(50, 3_000 // count))]
    means = {t: np.mean(found[t], axis=0) for t in shown}
    return [record(round=t, label=name, chance=float(means[t][i])) for i, name in labels.items() for t in shown]


def _strip(v: int, title: str, labels: list[str], chances: bool, last: int) -> Any:
    size = {"height": max(110, 26 * len(labels))}
    halves = {HALVES[0]: ORANGE, HALVES[1]: BLUE}
    tip = charts.tooltips(
        ("label", "label"),
        ("half", "when"),
        ("gain", "mean change", "+.4~g"),
        ("count", "intervals trained", ""),
        ("chosen", "times chosen", ""),
    )
    base = alt.Chart(alt.NamedData(f"arms{v}"))
    bars = base.mark_bar(cornerRadius=1).encode(
        yOffset=alt.YOffset("half:N", scale=alt.Scale(domain=HALVES)), tooltip=tip
    )
    y = charts.labels_axis("label", labels, alt.Axis(grid=False))
    gains = bars.encode(
        x=alt.X("gain:Q", title="mean change in score", axis=alt.Axis(tickCount=4, format=charts.TICK_FORMAT)),
        y=y,
        color=charts.colour("half", halves),
    )
    spread = base.mark_rule(strokeWidth=1.5).encode(
        x=alt.X("low:Q"),
        x2="high:Q",
        y=y,
        yOffset=alt.YOffset("half:N", bandPosition=0.5, scale=alt.Scale(domain=HALVES)),
    )
    times = bars.encode(
        x=alt.X("chosen:Q", title="times chosen", axis=alt.Axis(tickCount=4, tickMinStep=1, format="d")),
        y=charts.labels_axis("label", labels, None),
        color=alt.Color("half:N", legend=None, scale=charts.legend_scale(halves)),
    )
    parts: list[Any] = [
        alt.layer(gains, spread).properties(width=230, title=charts.panel_title(title), **size),
        times.properties(width=150, **size),
    ]
    if chances:
        parts.append(_chance_lines(f"chances{v}", labels, last).properties(width=210, **size))
    return alt.hconcat(*parts, spacing=22).resolve_scale(color="independent", strokeDash="independent")


def _chance_lines(source: str, labels: list[str], last: int) -> Any:
    dashes = alt.Scale(domain=labels, range=[DASHES[i // len(PALETTE) % len(DASHES)] for i in range(len(labels))])
    legend = alt.Legend(orient="right", direction="vertical", symbolLimit=MAX_LABELS)
    return (
        alt.Chart(alt.NamedData(source))
        .mark_line(strokeWidth=2)
        .encode(
            x=charts.rounds_axis(last),
            y=alt.Y("chance:Q", title="chance", axis=alt.Axis(format="%", tickCount=4)),
            color=charts.colour("label", labels, legend=legend),
            strokeDash=alt.StrokeDash("label:N", title=None, scale=dashes, legend=legend),
            tooltip=charts.tooltips(("label", "label"), ("round", "round", ""), ("chance", "chance", ".1%")),
        )
    )
