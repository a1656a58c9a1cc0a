"""What level replay brings: trials with it, minus those without it that are the same otherwise."""

from collections.abc import Sequence
from statistics import fmean

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from popbandits.basics.wording import counted, printable
from popbandits.reports.stats import deviation
from popbandits_experiments.paper.procgen.methods import LABELS, short
from popbandits_experiments.paper.procgen.tables import LEVELS, REPLAYS, TRAINED_BY, Trial
from popbandits_experiments.paper.score_tables import mean_interval

Group = tuple[str, str, int, int, tuple[str, ...], str]
"""Game, method, members, steps of each, what else was changed in what is tuned, and how levels are replayed."""
DRAWN = TRAINED_BY.index("levels")


def pairs(given: Sequence[Trial]) -> dict[Group, list[tuple[Trial, Trial]]]:
    """Pair finished trials with level replay and without it, of the same settings and seed; sort them by game."""
    found: dict[tuple[object, ...], dict[str, Trial]] = {}
    for one in given:
        if one.done:
            score_on = "" if one.run.space.fixed else one.settings["score_on"]
            others = one.trained_by[:DRAWN] + one.trained_by[DRAWN + 1 :]
            key = (*_what(one), *others, score_on, one.run.about["seed"])
            found.setdefault(key, {})[one.settings["levels"]] = one
    groups: dict[Group, list[tuple[Trial, Trial]]] = {}
    order = [*LABELS.values()]
    for same in found.values():
        for kind in REPLAYS:
            if kind in same and "uniform" in same:
                groups.setdefault((*_what(same[kind]), kind), []).append((same[kind], same["uniform"]))
    return dict(sorted(groups.items(), key=lambda each: (each[0][0], order.index(each[0][1]))))


def _what(one: Trial) -> tuple[str, str, int, int, tuple[str, ...]]:
    return one.settings["game"], one.method, one.population, one.steps, one.variant


def print_replay_table(given: Sequence[Trial], console: Console | None = None) -> None:
    """Print the differences of paired trials with their intervals; nothing if there are no pairs."""
    groups = pairs(given)
    if not groups:
        return
    console = console or Console()
    plain = not console.is_terminal
    if plain:
        console.width = 10_000
    console.print("With level replay, and without it", style="bold", highlight=False)
    view = Table(box=box.MARKDOWN if plain else box.ROUNDED)
    texts = ["game", "method", "levels", "budget", "returns"]
    for column in (*texts, "with it", "uniform", r"difference \[95% interval]"):
        view.add_column(column, justify="left" if column in texts else "right")
    for (game, method, members, steps, variant, kind), paired in groups.items():
        first = escape(printable(game)), escape(printable(", ".join([method, *variant]))), kind
        budget = f"{members} × {short(steps)}, {counted(len(paired), 'pair')}"
        for levels, label in LEVELS.items():
            ours, theirs = ([one.result(levels) for one in column] for column in zip(*paired, strict=True))
            mean, low, high = mean_interval([one - other for one, other in zip(ours, theirs, strict=True)])
            figures = [f"{fmean(column):.1f} ± {deviation(column):.1f}" for column in (ours, theirs)]
            figures.append(f"{mean:+.1f}" + (rf" \[{low:+.1f}, {high:+.1f}]" if len(paired) > 1 else ""))
            view.add_row(*first, budget, label.split()[0].lower(), *figures)
    console.print(view, highlight=False)
    console.print(
        "Mean ± standard deviation over seeds. Differences are paired by seed; their intervals are Student's, not "
        "corrected for the number of rows.\n",
        highlight=False,
        soft_wrap=True,
    )
