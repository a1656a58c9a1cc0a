"""Arms: the labels that were chosen, their probabilities, and what they gained (the paper's figure 5b)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from popbandits.reports.figures.figure import (
    BLUE,
    DASHES,
    ORANGE,
    PALETTE,
    TICK_FORMAT,
    Figure,
    Record,
    legend_scale,
    panel_title,
    record,
    rounds_axis,
    thin,
)
from popbandits.reports.run import Run, label_names
from popbandits.reports.stats import standard_error
from popbandits.space.parameters import Categorical

HALVES = ["first half", "second half"]
MAX_LABELS = 30
"""Maximum labels drawn of a choice; of more, the most used."""


def arms(runs: Sequence[Run]) -> Figure | None:
    """Draw mean gain and times chosen in both halves, and probabilities over time, of each choice; None without any."""
    import altair as alt

    space = runs[0].space
    if not space.categorical:
        return None
    data: dict[str, list[Record]] = {}
    strips, cut = [], False
    for v, variable in enumerate(space.categorical):
        names, kept = label_names(variable.labels), _kept(runs, v, variable)
        cut |= len(kept) < len(names)
        order = [names[i] for i in kept]
        halves = [_half(run, v, half) for half in (0, 1) for run in runs]
        both = (halves[: len(runs)], halves[len(runs) :])
        data[f"arms{v}"] = [
            _bar(names[i], HALVES[half], [g[i] for g, _ in part], sum(int(n[i]) for _, n in part))
            for half, part in enumerate(both)
            for i in kept
        ]
        data[f"chances{v}"] = _chances(runs, variable, names, set(kept.tolist()))
        strips.append(_strip(v, variable, order, bool(data[f"chances{v}"]), max(r.scores.shape[0] for r in runs) - 1))
    chart = alt.vconcat(*strips, spacing=30).resolve_scale(color="independent", strokeDash="independent")
    part = f" Of choices with more than {MAX_LABELS} labels, the {MAX_LABELS} most used are drawn." if cut else ""
    caption = (
        "Left: the mean change in score of the intervals trained with each label, ± 1 standard error, so that more is "
        "better. Middle: how often it was chosen for a member that explored. Right: the bandit's chance of drawing "
        f"it.{part}"
    )
    if not any(data[f"chances{v}"] for v in range(len(space.categorical))):
        caption = caption.replace(" Right: the bandit's chance of drawing it.", " This method keeps no chances.")
    return Figure("arms", "Labels chosen, and what they gained", caption, chart, data)


def _kept(runs: Sequence[Run], v: int, variable: Categorical) -> Any:
    """Return the labels to draw."""
    played = np.concatenate([run.rows.points.h[:, v] for run in runs])
    count = np.bincount(played[played >= 0], minlength=len(variable.labels))
    return np.sort(np.argsort(-count, kind="stable")[:MAX_LABELS])


def _half(run: Run, v: int, half: int) -> tuple[list[Any], Any]:
    """Return, by label, the gains measured in one half of a run and how often it was chosen there."""
    rows, labels = run.rows, len(run.space.categorical[v].labels)
    middle = run.scores.shape[0] / 2
    inside = (rows.round >= middle) == bool(half)
    played = rows.points.h[:, v]
    gains = [rows.change[inside & run.measured & (played == i)] for i in range(labels)]
    chosen = np.array(
        [key in run.explored for key in zip(rows.member.tolist(), rows.round.tolist(), strict=True)], bool
    )
    return gains, np.bincount(played[inside & chosen & (played >= 0)], minlength=labels)


def _bar(name: str, half: str, gains: list[Any], chosen: int) -> Record:
    pooled = np.concatenate(gains)
    error = standard_error(pooled.tolist())
    mean = float(pooled.mean()) if len(pooled) else float("nan")
    return record(
        label=name, half=half, gain=mean, low=mean - error, high=mean + error, count=len(pooled), chosen=chosen
    )


def _chances(runs: Sequence[Run], variable: Categorical, names: list[str], kept: set[int]) -> list[Record]:
    """Return the mean probabilities over the runs and decisions of a round."""
    sums: dict[int, Any] = {}
    for run in runs:
        for o in run.history:
            p = o.decision.get("probabilities", {}).get(variable.name)
            if p is not None and len(p) == len(names) and o.key in run.explored:
                total, n = sums.get(o.round, (0.0, 0))
                sums[o.round] = (total + np.array(p), n + 1)
    rounds = sorted(sums)
    shown = [rounds[i] for i in thin(np.arange(len(rounds)), max(50, 3_000 // len(names)))]
    return [
        record(round=t, label=name, chance=float(sums[t][0][i] / sums[t][1]))
        for i, name in enumerate(names)
        if i in kept
        for t in shown
    ]


def _strip(v: int, variable: Categorical, order: list[str], chances: bool, last: int) -> Any:
    import altair as alt

    height = max(110, 26 * len(order))
    base = alt.Chart(alt.NamedData(f"arms{v}"))
    y = alt.Y("label:N", title=None, scale=alt.Scale(domain=order), sort=None, axis=alt.Axis(grid=False))
    bare = alt.Y("label:N", title=None, scale=alt.Scale(domain=order), sort=None, axis=None)
    offset = alt.YOffset("half:N", scale=alt.Scale(domain=HALVES))
    colour = alt.Color("half:N", title=None, scale=legend_scale(HALVES, [ORANGE, BLUE]))
    unsaid = alt.Color("half:N", legend=None, scale=legend_scale(HALVES, [ORANGE, BLUE]))
    tip = [
        alt.Tooltip("label:N"),
        alt.Tooltip("half:N", title="when"),
        alt.Tooltip("gain:Q", title="mean change", format="+.4~g"),
        alt.Tooltip("count:Q", title="intervals trained"),
        alt.Tooltip("chosen:Q", title="times chosen"),
    ]
    gain = alt.X("gain:Q", title="mean change in score", axis=alt.Axis(tickCount=4, format=TICK_FORMAT))
    bars = base.mark_bar(cornerRadius=1).encode(x=gain, y=y, yOffset=offset, color=colour, tooltip=tip)
    spread = base.mark_rule(strokeWidth=1.5).encode(
        x=alt.X("low:Q"),
        x2="high:Q",
        y=y,
        yOffset=alt.YOffset("half:N", bandPosition=0.5, scale=alt.Scale(domain=HALVES)),
    )
    chosen = alt.X("chosen:Q", title="times chosen", axis=alt.Axis(tickCount=4, tickMinStep=1, format="d"))
    times = base.mark_bar(cornerRadius=1).encode(x=chosen, y=bare, yOffset=offset, color=unsaid, tooltip=tip)
    parts = [
        alt.layer(bars, spread).properties(width=230, height=height, title=panel_title(variable.name)),
        times.properties(width=150, height=height),
    ]
    if chances:
        dashes = [DASHES[i // len(PALETTE) % len(DASHES)] for i in range(len(order))]
        legend = alt.Legend(orient="right", direction="vertical", symbolLimit=MAX_LABELS)
        lines = (
            alt.Chart(alt.NamedData(f"chances{v}"))
            .mark_line(strokeWidth=2)
            .encode(
                x=rounds_axis(last),
                y=alt.Y("chance:Q", title="chance", axis=alt.Axis(format="%", tickCount=4)),
                color=alt.Color("label:N", title=None, scale=legend_scale(order), legend=legend),
                strokeDash=alt.StrokeDash(
                    "label:N", title=None, scale=alt.Scale(domain=order, range=dashes), legend=legend
                ),
                tooltip=[
                    alt.Tooltip("label:N"),
                    alt.Tooltip("round:Q"),
                    alt.Tooltip("chance:Q", format=".1%"),
                ],
            )
            .properties(width=210, height=height)
        )
        parts.append(lines)
    return alt.hconcat(*parts, spacing=22).resolve_scale(color="independent", strokeDash="independent")
