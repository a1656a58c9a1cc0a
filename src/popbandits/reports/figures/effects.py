"""What mattered: how the gain beside the others goes with each number and each label (after the paper's figure 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from popbandits.basics.typing import FloatArray, IntArray
from popbandits.reports.figures import charts
from popbandits.reports.figures.figure import Figure, Record, most_used, record, thin
from popbandits.reports.figures.theme import BLUE, DASHES, GREY, PALETTE, RED
from popbandits.reports.run import Run, label_names, shorten
from popbandits.reports.stats import MIN_POINTS, MIN_POINTS_APART, Association, association, critical, standard_error

ALL = "all intervals"
UP, DOWN, NEITHER = "more was better", "less was better", "no clear effect"
MAX_ROWS = 40
"""Maximum effects drawn."""
MAX_LABELS = 30
"""Maximum labels drawn of a choice; of more, the most used."""
GAIN = (
    "Gain: the change in score, minus what other members usually gained at the same score, compared with the others of "
    "the same round."
)


@dataclass(frozen=True)
class Effect:
    """The effect of a hyperparameter on the gain, with one label or overall."""

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

    @property
    def where(self) -> str:
        """The intervals that it was estimated from, in words."""
        return f"over {ALL}" if self.variable is None else f"with {self.variable} = {self.label}"


def effects(runs: Sequence[Run]) -> list[Effect]:
    """Correlate the gain with one number each, overall and for each label, over all runs of one space.

    A configuration counts once, with the median gain of its intervals: more intervals say nothing more about its
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
    """Return the numbers and labels of each configuration of a run, and its gain."""
    known = np.isfinite(run.gains)
    rows, gains = run.rows[known], run.gains[known]
    x, h = rows.points.x, rows.points.h
    groups: dict[bytes, list[int]] = {}
    for i, key in enumerate(np.hstack([x, h])):
        groups.setdefault(key.tobytes(), []).append(i)
    first = [indices[0] for indices in groups.values()]
    return x[first], h[first], np.array([np.median(gains[indices]) for indices in groups.values()])


def effects_figure(found: Sequence[Effect]) -> Figure | None:
    """Draw a bar for each number, and for each label with which its effect is clear; None if nothing was estimated."""
    if not found:
        return None
    shown = [e for e in found if e.variable is None or e.direction != NEITHER]
    names = [shorten(e.parameter if e.variable is None else f"{e.parameter} {e.where}", 180) for e in shown[:MAX_ROWS]]
    rows = [
        record(
            label=name,
            z=e.found.z,
            tau=e.found.tau,
            low=-e.critical,
            high=e.critical,
            direction=e.direction,
            count=e.found.count,
        )
        for name, e in zip(names, shown, strict=False)
    ]
    limit = max(max(abs(row["z"]), row["high"]) for row in rows) * 1.05
    part = "" if len(rows) == len(shown) else f" {len(rows)} of {len(shown)} are drawn."
    caption = (
        f"{GAIN} Bars: Kendall's rank correlation of the gain with a number, divided by its standard deviation, over "
        "all configurations, and over those with one label where that is clear. Ticks: p = 0.05, corrected for all "
        f"{len(found)} comparisons. It takes {MIN_POINTS} configurations, {MIN_POINTS_APART} of them with other values "
        f"than the commonest. It ignores the other hyperparameters.{part}"
    )
    chart = _bars(names, limit).properties(width=600, height=charts.rows_height(names))
    return Figure("effects", "What mattered", caption, chart, {"effects": rows})


def _bars(names: list[str], limit: float) -> Any:
    """Draw the bars, and the limits beyond which they are clear."""
    base = alt.Chart(alt.NamedData("effects"))
    scale = alt.Scale(domain=[-limit, limit], nice=False, clamp=True)
    y = charts.labels_axis("label", names)
    tip = charts.tooltips(
        ("label", "effect of"),
        ("z", "z-value", "+.3~f"),
        ("high", "clear beyond", ".3~f"),
        ("tau", "rank correlation", "+.3~f"),
        ("count", "configurations", ""),
        ("direction", "effect"),
    )
    bars = base.mark_bar(cornerRadius=1).encode(
        x=alt.X("z:Q", title="z-value", scale=scale, axis=alt.Axis(tickCount=5, format=charts.TICK_FORMAT)),
        y=y,
        color=charts.colour("direction", {UP: BLUE, DOWN: RED, NEITHER: GREY}),
        tooltip=tip,
    )
    ticks = base.mark_tick(thickness=1.5, color=GREY)
    limits = (ticks.encode(x=alt.X(f"{end}:Q", scale=scale), y=y) for end in ("low", "high"))
    return alt.layer(bars, *limits)


def arms(runs: Sequence[Run]) -> Figure | None:
    """Draw the mean gain with each label, how often it was chosen and, of a bandit, its chance; None without labels."""
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
        data[f"arms{v}"] = [_gained(runs, v, i, name) for i, name in labels.items()]
        if chances := _chances(runs, variable.name, len(names), labels):
            data[f"chances{v}"] = chances
        strips.append(_strip(v, variable.name, list(labels.values()), bool(chances), last))
    chart = alt.vconcat(*strips, spacing=30).resolve_scale(color="independent", strokeDash="independent")
    caption = f"{GAIN} Left: its mean with each label, ± 1 standard error. Beside it: how often the label was chosen."
    caption += " Right: the bandit's chance of drawing it." if any(name.startswith("chances") for name in data) else ""
    caption += f" Of choices with more than {MAX_LABELS} labels, the {MAX_LABELS} most used are drawn." if cut else ""
    return Figure("arms", "Labels chosen, and what they gained", caption, chart, data)


def _gained(runs: Sequence[Run], v: int, label: int, name: str) -> Record:
    """Return the mean gain with a label, and how often it was chosen."""
    gains: list[float] = []
    chosen = 0
    for run in runs:
        trained = run.rows.points.h[:, v] == label
        gains += run.gains[trained & np.isfinite(run.gains)].tolist()
        keys = zip(run.rows.member[trained].tolist(), run.rows.round[trained].tolist(), strict=True)
        chosen += sum(key in run.explored for key in keys)
    mean, error = float(np.mean(gains)) if gains else float("nan"), standard_error(gains)
    return record(label=name, gain=mean, low=mean - error, high=mean + error, count=len(gains), chosen=chosen)


def _strip(v: int, title: str, labels: list[str], chances: bool, last: int) -> Any:
    size = {"height": charts.rows_height(labels)}
    tip = charts.tooltips(
        ("label", "label"),
        ("gain", "mean gain", "+.4~g"),
        ("count", "intervals compared", ""),
        ("chosen", "times chosen", ""),
    )
    base = alt.Chart(alt.NamedData(f"arms{v}"))
    bars = base.mark_bar(cornerRadius=1, color=BLUE)
    y = charts.labels_axis("label", labels)
    number = alt.Axis(tickCount=4, format=charts.TICK_FORMAT)
    gains = bars.encode(x=alt.X("gain:Q", title="gain beside others", axis=number), y=y, tooltip=tip)
    spread = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q"), x2="high:Q", y=y)
    count = alt.Axis(tickCount=4, tickMinStep=1, format="d")
    times = bars.encode(x=alt.X("chosen:Q", title="times chosen", axis=count), y=y, tooltip=tip)
    parts: list[Any] = [
        alt.layer(gains, spread).properties(width=230, title=charts.panel_title(title), **size),
        times.properties(width=150, **size),
    ]
    if chances:
        parts.append(_chance_lines(f"chances{v}", labels, last).properties(width=210, **size))
    return alt.hconcat(*parts, spacing=22)


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
