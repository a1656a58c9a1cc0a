"""Figures of the stored results: `python -m popbandits_experiments.ground figures`."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from popbandits.basics.wording import counted
from popbandits.errors import ArgumentError
from popbandits.reports.figures.figure import Figure, record, require_extra
from popbandits.reports.figures.figure import Record as Row
from popbandits.reports.figures.theme import DASHES, PALETTE
from popbandits_experiments.ground.headroom import Admission
from popbandits_experiments.ground.records import TENTHS, Record
from popbandits_experiments.ground.scales import scale_of
from popbandits_experiments.ground.statistics import estimate, improvement, iqm, profile
from popbandits_experiments.ground.suite import (
    BASELINES,
    IN_WORDS,
    Comparison,
    add_selection,
    arrange,
    label,
    normalised,
    require_some,
    select,
    showing,
)
from popbandits_experiments.paper.regret import COLOURS

DEFAULTS = "#1d2129"
"""Colour of runs without tuning."""
THRESHOLDS = np.linspace(-0.25, 1.25, 76)
"""Scores at which profiles are drawn, on the common scale."""
WIDTH, HEIGHT = 400, 300


def colours(methods: Sequence[str]) -> list[str]:
    """Return a colour for each method: its own, that of the method it varies, or the next free one."""
    own = {"defaults": DEFAULTS} | COLOURS
    known = {method: colour for method in methods if (colour := own.get(method) or own.get(_varied(method)))}
    free = iter([colour for colour in PALETTE if colour not in {known.get(method) for method in methods}] * 9)
    return [known.get(method) or next(free) for method in methods]


def dashes(methods: Sequence[str]) -> list[list[int]]:
    """Return the dash pattern of each method: dashed without tuning, dotted for a variation."""
    lines = {"defaults": DASHES[1]}
    return [lines.get(method, DASHES[2] if _varied(method) != method else DASHES[0]) for method in methods]


def _varied(method: str) -> str:
    """Return the method that a name such as pbt/start varies."""
    return method.partition("/")[0]


def chosen(records: Sequence[Record]) -> list[Comparison]:
    """Choose the number of rounds with the most runs for each space, group and members; the larger one wins a tie."""
    best: dict[object, Comparison] = {}
    for part in arrange(records):
        if part.place not in best or len(part.records) > len(best[part.place].records):
            best[part.place] = part
    return list(best.values())


def titled(panel: Any, part: Comparison, first: str = "") -> Any:
    """Add a panel's size and title, with the amount of data below."""
    import altair as alt

    below = f"{counted(len(part.tasks), 'task')}, {part.setting}, {counted(seeds(part), 'seed')}"
    title, below = (first, f"{part.title}: {below}") if first else (part.title, below)
    heading = alt.Title(title, subtitle=[below], fontSize=13, subtitleFontSize=11, anchor="start", frame="group")
    return panel.properties(width=WIDTH, title=heading)


def seeds(part: Comparison) -> int:
    """Count the seeds that any method was run with."""
    return len({record.seed for record in part.records})


def all_methods(parts: Sequence[Comparison]) -> list[str]:
    """Return the methods of all panels, in the order in which they are shown."""
    return [*dict.fromkeys(method for part in parts for method in part.methods)]


def profiles(parts: Sequence[Comparison]) -> Figure:
    """Draw the share of runs above each score; a panel for each space and group of tasks."""
    data: dict[str, list[Row]] = {}
    for index, part in enumerate(parts):
        rows = data[f"panel{index}"] = []
        for method in part.methods:
            shares = profile(part.values(method, normalised), THRESHOLDS)
            for x, y, low, high in zip(THRESHOLDS, *shares, strict=True):
                rows.append(record(method=label(method), x=float(x), y=float(y), low=float(low), high=float(high)))
    caption = (
        "Share of runs that end above a score; higher is better. 0 is the score of a random policy, 1 a solved task; "
        "every task counts alike. Bands: 95% bootstrap intervals, stratified by task."
    )
    axes = Axes("normalised score", "~g", "share of runs", "%", (0.0, 1.0))
    return lines("real-profiles", "Performance profiles", caption, parts, data, axes)


def budgets(parts: Sequence[Comparison]) -> Figure:
    """Draw the interquartile mean after each tenth of the budget; a panel for each space and group of tasks."""
    data: dict[str, list[Row]] = {}
    for index, part in enumerate(parts):
        rows = data[f"panel{index}"] = []
        for method in part.methods:
            for tenth in range(TENTHS):
                found = estimate(iqm, part.values(method, best_score_after(tenth)))
                rows.append(
                    record(
                        method=label(method),
                        x=(tenth + 1) / TENTHS,
                        y=found.value,
                        low=float(np.nan_to_num(found.low, nan=found.value)),
                        high=float(np.nan_to_num(found.high, nan=found.value)),
                    )
                )
    caption = (
        "Interquartile mean of the best member's last training score, on the scale where 0 is random and 1 solved; "
        "every task counts alike. Bands: 95% bootstrap intervals, stratified by task."
    )
    axes = Axes("part of the budget", "%", "interquartile mean", "~g")
    return lines("real-budget", "Scores over the budget", caption, parts, data, axes)


def best_score_after(tenth: int) -> Callable[[Record], float]:
    """Return a function that reads a record's curve on the common scale."""
    return lambda record: scale_of(record.task).normalise(record.curve[tenth])


class Axes(NamedTuple):
    """Titles and number formats of both axes, and the ends of the second where they are fixed."""

    x: str
    x_format: str
    y: str
    y_format: str
    y_domain: tuple[float, float] | None = None


def lines(
    name: str, title: str, caption: str, parts: Sequence[Comparison], data: dict[str, list[Row]], axes: Axes
) -> Figure:
    """Draw a line with a band for each method, in adjacent panels."""
    import altair as alt

    methods = all_methods(parts)
    names = [label(method) for method in methods]
    legend = alt.Legend(orient="top", columns=5, symbolType="stroke", symbolSize=300)
    colour = alt.Color(
        "method:N", title=None, scale=alt.Scale(domain=list(names), range=colours(methods)), legend=legend
    )
    styles = alt.Scale(domain=names, range=dashes(methods))
    dash = alt.StrokeDash("method:N", title=None, scale=styles, legend=legend)
    scale = alt.Scale(domain=axes.y_domain) if axes.y_domain else alt.Scale(zero=False)
    x = alt.X(
        "x:Q",
        title=axes.x,
        scale=alt.Scale(nice=False),
        axis=alt.Axis(grid=False, tickCount=6, format=axes.x_format),
    )
    panels = []
    for index, part in enumerate(parts):
        base = alt.Chart(alt.NamedData(f"panel{index}"))
        y = alt.Y("y:Q", title=axes.y, scale=scale, axis=alt.Axis(format=axes.y_format, tickCount=5))
        band = base.mark_area(opacity=0.1).encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour)
        line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash)
        panels.append(titled(alt.layer(band, line).properties(height=HEIGHT), part))
    return Figure(name, title, caption, alt.concat(*panels, columns=2, spacing=28), data)


def improvements(parts: Sequence[Comparison]) -> Figure | None:
    """Draw each method's probability of improvement over the baselines; a row of panels for each space and group.

    None if no method shares a seed with a baseline.
    """
    import altair as alt

    methods = all_methods(parts)
    data: dict[str, list[Row]] = {}
    panels = []
    for index, part in enumerate(parts):
        for baseline in BASELINES:
            rows = []
            for method in part.methods:
                pairs = part.pairs(method, baseline) if method != baseline else []
                if pairs:
                    found = improvement(pairs)
                    rows.append(
                        record(
                            method=label(method),
                            value=found.value,
                            low=found.low,
                            high=found.high,
                            filled=found.verdict != "undecided",
                        )
                    )
            if rows:
                source = f"{baseline}{index}"
                data |= {source: rows, "half": [{"half": 0.5}]}
                panels.append(titled(improvement_panel(source, methods), part, f"Over {IN_WORDS[baseline]}"))
    caption = (
        "Probability of a higher score than the baseline's with the same seed, ties counted half, mean over "
        "tasks; 95% bootstrap intervals over paired seeds, stratified by task. Filled: interval and sign test exclude "
        "one half."
    )
    if not panels:
        return None
    chart = alt.concat(*panels, columns=2, spacing=28)
    return Figure("real-improvement", "Probability of improvement", caption, chart, data)


def improvement_panel(source: str, methods: Sequence[str]) -> Any:
    """Draw a dot and an interval for each method, and a line at one half."""
    import altair as alt

    names = [label(method) for method in methods]
    base = alt.Chart(alt.NamedData(source))
    axes: Any = {
        "title": None,
        "scale": alt.Scale(domain=[0, 1]),
        "axis": alt.Axis(format=".2~f", values=[0, 0.25, 0.5, 0.75, 1]),
    }
    x = alt.X("value:Q", **axes)
    y = alt.Y("method:N", title=None, sort=names, axis=alt.Axis(labelLimit=300))
    colour = alt.Color("method:N", legend=None, scale=alt.Scale(domain=list(names), range=colours(methods)))
    half = alt.Chart(alt.NamedData("half")).mark_rule(strokeDash=[4, 3]).encode(x=alt.X("half:Q", **axes))
    bar = base.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q", **axes), x2="high:Q", y=y, color=colour)
    ring = base.mark_point(size=80, filled=True, fill="white", opacity=1, strokeWidth=2)
    dot = base.mark_point(size=80, filled=True, opacity=1, strokeWidth=2)
    empty = ring.encode(x=x, y=y, stroke=colour).transform_filter("!datum.filled")
    full = dot.encode(x=x, y=y, color=colour).transform_filter("datum.filled")
    return alt.layer(half, bar, empty, full).properties(height=26 * len(names))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `figures`."""
    add_selection(parser)
    parser.add_argument("--out", type=Path, default=Path("runs/real"), help="folder of the figures (%(default)s)")
    parser.add_argument("--kinds", nargs="+", choices=("png", "svg"), default=["png", "svg"], help="kinds of files")


def main(options: argparse.Namespace) -> None:
    """Draw every figure into a folder."""
    require_extra()
    records = select(options)
    require_some(records, options)
    admission = Admission.asked(options)
    if words := admission.words(records):
        print(f"{words}\n")
    entered = admission.of(records)
    if not entered:
        raise ArgumentError(f"figures are over tasks with headroom, got none in {options.headroom}; add --all-tasks")
    parts = [shown for part in chosen(entered) for shown in showing([part], options.score)]
    options.out.mkdir(parents=True, exist_ok=True)
    for figure in (profiles(parts), budgets(parts), improvements(parts)):
        if figure is not None:
            said = replace(figure, caption=f"{figure.caption} Tasks {admission.tasks}.")
            for path in said.write(options.out, options.kinds):
                print(path)
