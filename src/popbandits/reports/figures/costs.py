"""Draw scores against what the run had spent by then, with the best score within each cost."""

from typing import Any

import altair as alt
import numpy as np

from popbandits.basics.typing import FloatArray
from popbandits.basics.wording import number
from popbandits.history.spending import spending
from popbandits.reports.axes import time_unit
from popbandits.reports.figures import charts
from popbandits.reports.figures.far import Far
from popbandits.reports.figures.figure import Figure, Record, record, thin
from popbandits.reports.figures.theme import BLUE, GREY
from popbandits.reports.run import Run

BEST, OTHER = "best score within that cost", "an interval"
MAX_TICKS = 8
"""About how many ticks the axis of costs has: at one every 40 pixels, which is Vega's own, long numbers touch."""


def costs(run: Run) -> Figure | None:
    """Draw scores against training time, and against the cost that agents reported; None if neither is known."""
    nothing, seconds, far = np.full(len(run), np.nan), run.numbers["seconds"], Far.of(run)
    reported = np.array([np.nan if o.cost is None else o.cost for o in run.history])
    panels, data, words = [], {}, []
    for name, each in (("cost", spending(reported, nothing)), ("time", spending(nothing, seconds))):
        if len(each) < 2 or not each[-1] > 0:
            continue
        length, unit = time_unit(each[-1]) if name == "time" else (1.0, "")
        title = f"training time of all members, {unit}" if unit else "cost of all members"
        data[name], data[f"front_{name}"] = _rows(run, each / length, far)
        panels.append(_panel(name, title))
        if (half := run.history.prefix(int(np.searchsorted(each, each[-1] / 2, side="right"))).best) is not None:
            words.append(f"Half of the {'training time' if unit else 'cost'} gave {number(half.score)}.")
    if not panels:
        return None
    caption = (
        "Each point is an interval: its score, and what all members together had spent when it ended. The line is the "
        f"front: the best score for at most so much. {' '.join(words)}"
    ) + ("" if far is None else f" {far}")
    return Figure("costs", "Score against cost", caption, alt.vconcat(*panels, spacing=24), data)


def _rows(run: Run, spent: FloatArray, far: Far | None) -> tuple[list[Record], list[Record]]:
    """Return the completed intervals, without far scores, and the corners of the front up to the end of the run."""
    scores = run.numbers["score"]
    done = np.flatnonzero(np.isfinite(scores))
    done = done if far is None else done[run.sign * scores[done] >= run.sign * far.limit]
    turned = run.sign * scores[done]
    record_at = done[turned > np.append(-np.inf, np.maximum.accumulate(turned)[:-1])]

    def row(index: int) -> Record:
        key = run.history[index].key
        config = run.describe(key)
        return record(member=key[0], round=key[1], score=float(scores[index]), spent=float(spent[index]), config=config)

    front = [row(index) for index in thin(record_at).tolist()]
    end = [front[-1] | record(spent=float(spent[-1]), end=True)] if front else []
    return [row(index) for index in thin(done).tolist()], front + end


def _panel(name: str, title: str) -> Any:
    axis = alt.Axis(grid=False, format=charts.TICK_FORMAT, tickCount=MAX_TICKS)
    x = alt.X("spent:Q", title=title, scale=alt.Scale(nice=False), axis=axis)
    colour = charts.colour("what", {BEST: BLUE, OTHER: GREY}, legend=alt.Legend(columns=2))
    tip = charts.tooltips(*charts.SCORE_TIP, ("spent", "spent", ".4~g"), ("config", "hyperparameters"))
    each, front = (
        charts.intervals(source, what=f"'{what}'").encode(x=x, y=charts.score_axis(), color=colour)
        for source, what in ((name, OTHER), (f"front_{name}", BEST))
    )
    return alt.layer(
        each.mark_circle(size=26, opacity=0.5).encode(tooltip=tip),
        front.mark_line(strokeWidth=2.5, interpolate="step-after"),
        front.transform_filter("!datum.end").mark_circle(size=36, opacity=1).encode(tooltip=tip),
    ).properties(width=760, height=200)
