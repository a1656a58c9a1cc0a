"""Show what PB2-Mix's model saw in stored runs: `python -m popbandits_experiments.paper.procgen.model_view`.

Before every round, the model is fitted to what had been observed by then, once to every interval, as the paper's text
says, and once as the published code has it: only intervals that went on with a member's own configuration
(`continued_only`), with the score before as an input (`score_before`), or both. Its upper confidence bound is computed
along the learning rate, with the best member's other hyperparameters. How far the model tells configurations apart at
all is the spread of its predictions over numbers drawn uniformly. Nothing is trained here.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from popbandits import History, PB2Mix
from popbandits.basics.typing import FloatArray
from popbandits.explorers.surrogate import Models, one_blas_thread
from popbandits.models.acquisition import candidates
from popbandits.models.gp import NotFittedError
from popbandits.models.kernel import LENGTH, R1
from popbandits.reports.figures.figure import Figure, record, require_extra
from popbandits.reports.figures.theme import PALETTE
from popbandits.space import Points
from popbandits_experiments import RESULTS

STORED = tuple(RESULTS / "procgen" / "bigfish" / "pb2-mix" / seed for seed in ("0", "1"))
TUNED = "lr"
GRID = np.linspace(0, 1, 51)
"""Learning rates at which the bound is computed, as shares of the range."""
LOW = 0.02
"""Share of the range up to which a rate is low: 3e-5 in the paper's."""
DRAWS = 400
"""Number of configurations drawn for the spread of predictions."""
_BOTH = (True, False)
VIEWS: Mapping[str, PB2Mix] = {
    "every interval": PB2Mix(),
    "score before": PB2Mix(score_before=True),
    "continued only": PB2Mix(continued_only=True),
    "both": PB2Mix(continued_only=True, score_before=True),
    "both, a length-scale each": PB2Mix(continued_only=True, score_before=True, per_dimension=True),
}


@dataclass(frozen=True)
class Sight:
    """What a model saw before a round."""

    round: int
    bound: FloatArray
    """Upper confidence bound at the rates of GRID, in standard deviations of the change."""
    length: float
    """Length-scale of the numbers, whose ranges are [0, 1]; the geometric mean, if each has its own."""
    spread: float
    """Standard deviation of the predicted changes of uniformly drawn numbers, in standard deviations of the change."""

    @property
    def best(self) -> float:
        """The rate with the highest bound, as a share of the range."""
        return float(GRID[self.bound.argmax()])


def look(history: History, explorer: PB2Mix, rounds: Iterable[int]) -> Iterator[Sight]:
    """Fit the model before each round and look along the learning rate; leave out rounds with too few observations."""
    space, size = history.space, history.size or 1
    column = _column(history)
    uniform = np.random.default_rng(0).random((DRAWS, len(space.numerical)))
    for round_ in rounds:
        past = history.prefix(round_ * size)
        leader = max(past[-size:], key=lambda one: -np.inf if np.isnan(one.score) else history.sign * one.score)
        point = space.encode([leader.config])
        x = np.repeat(point.x, len(GRID), axis=0)
        x[:, column] = GRID
        try:
            with one_blas_thread():
                model = Models(explorer, space, past).at(point.h[0])
                bound = model.bound(past, leader)
                along = bound(Points(x, np.repeat(point.h, len(GRID), axis=0)))
                predicted, _ = model.posterior.predict(
                    bound.inputs(candidates(space, point.h, uniform[:0], uniform)[0])
                )
        except NotFittedError:
            continue
        theta = model.structure.theta(np.array(model.record["theta"]))
        yield Sight(round_, along, float(np.exp(theta[LENGTH:R1].mean())), float(predicted.std()))


def changes(history: History) -> Mapping[tuple[bool, bool], FloatArray]:
    """Return the changes of score by whether the interval went on with its configuration, and whether its rate is low.

    Fresh starts are left out.
    """
    rows = history.recent()
    known = np.isfinite(rows.change) & ~rows.guessed
    low = rows.points.x[:, _column(history)] <= LOW
    return {
        (own, is_low): rows.change[known & (rows.new != own) & (low == is_low)] for own in _BOTH for is_low in _BOTH
    }


def table_of_changes(runs: Mapping[str, History]) -> Table:
    """Build a table of the change of score in an interval."""
    table = Table("run", *(f"{kind}, {rate} rate" for kind in ("new", "continued") for rate in ("low", "higher")))
    table.box = box.MARKDOWN
    for name, history in runs.items():
        found = changes(history)
        cells = [found[own, low] for own in (False, True) for low in (True, False)]
        table.add_row(name, *(_spread(each) for each in cells))
    return table


def _spread(values: FloatArray) -> str:
    if len(values) < 2:
        return f"{len(values)} intervals"
    return f"{values.mean():+.2f} ± {values.std(ddof=1) / len(values) ** 0.5:.2f} s.e. ({len(values)})"


def table_of_views(sights: Mapping[tuple[str, str], Sequence[Sight]]) -> Table:
    """Build a table of how often a model prefers a low rate, and of how far it tells configurations apart.

    The former in the first and the second half of a run, the latter in the second.
    """
    heads = ("run", "the model learns from", "prefers a low rate: first half", "second half", "length-scale", "spread")
    table = Table(*heads, box=box.MARKDOWN)
    for (run, view), seen in sights.items():
        middle = len(seen) // 2
        halves = (np.mean([each.best <= LOW for each in part]) for part in (seen[:middle], seen[middle:]))
        length, spread = (np.median([(each.length, each.spread) for each in seen[middle:]], axis=0)).tolist()
        table.add_row(run, view, *(f"{share:.0%} of rounds" for share in halves), f"{length:.2g}", f"{spread:.2f}")
    return table


def draw(sights: Mapping[tuple[str, str], Sequence[Sight]], runs: Mapping[str, History]) -> Figure:
    """Draw the rate that each model prefers over rounds, and the rates that were trained with."""
    require_extra()
    import altair as alt

    views = list(dict.fromkeys(view for _, view in sights))
    preferred = [
        record(run=run, view=view, round=seen.round, rate=seen.best)
        for (run, view), sight in sights.items()
        for seen in sight
    ]
    trained = [
        record(run=run, round=one.round, rate=float(history.space.encode([one.config]).x[0, _column(history)]))
        for run, history in runs.items()
        for one in history
    ]
    x = alt.X("round:Q", title="round")
    y = alt.Y("rate:Q", title="learning rate, share of its range", scale=alt.Scale(domain=[0, 1]))
    colour = alt.Color(
        "view:N", sort=views, scale=alt.Scale(domain=views, range=PALETTE[: len(views)]), title="prefers"
    )
    panels = []
    for run in runs:
        own = alt.datum.run == run
        dots = (
            alt.Chart(alt.NamedData("trained")).transform_filter(own).mark_circle(size=16, color="#9aa0a8", opacity=1)
        )
        lines = alt.Chart(alt.NamedData("preferred")).transform_filter(own).mark_line(point=True, strokeWidth=1)
        layers = alt.layer(dots.encode(x=x, y=y), lines.encode(x=x, y=y, color=colour))
        panels.append(layers.properties(width=380, height=220, title=run))
    caption = (
        "Before each round: the learning rate with the highest upper confidence bound, at the best member's other "
        "values, if the model learns from every interval or from continued ones only. Grey: rates trained with."
    )
    data = {"preferred": preferred, "trained": trained}
    return Figure("procgen-model", "What PB2-Mix's model saw on BigFish", caption, alt.concat(*panels), data)


def _column(history: History) -> int:
    return [number.name for number in history.space.numerical].index(TUNED)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the model saw in runs, and draw it."""
    parser = argparse.ArgumentParser(
        prog="python -m popbandits_experiments.paper.procgen.model_view", description=__doc__
    )
    parser.add_argument(
        "runs", nargs="*", type=Path, default=STORED, help="folders of runs (the stored ones of PB2-Mix)"
    )
    parser.add_argument("--every", type=int, default=1, help="rounds from one fit to the next (1)")
    parser.add_argument("--out", type=Path, help="folder for a figure; without it, nothing is drawn")
    options = parser.parse_args(arguments)
    runs = {f"seed {folder.name}": History.load(folder) for folder in options.runs}
    console = Console(width=200)
    console.print(table_of_changes(runs))
    sights = {
        (run, view): [*look(history, explorer, range(2, history[-1].round + 2, options.every))]
        for run, history in runs.items()
        for view, explorer in VIEWS.items()
    }
    console.print(table_of_views(sights))
    if options.out is not None:
        shown = {key: seen for key, seen in sights.items() if key[1] in ("every interval", "continued only")}
        console.print(*draw(shown, runs).write(options.out, ["png"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
