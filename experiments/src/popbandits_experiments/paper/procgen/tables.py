"""The paper's two tables of returns on Procgen, from stored runs, next to the published figures."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from popbandits.basics.rules import is_real
from popbandits.basics.wording import counted, printable, visible
from popbandits.errors import HistoryError
from popbandits.history import Observation
from popbandits.reports.run import Run
from popbandits.reports.stats import deviation
from popbandits.run.recipes import current
from popbandits.storage.folders import run_folders
from popbandits.storage.schema import RUN_FILE
from popbandits_experiments.paper.procgen import published
from popbandits_experiments.paper.procgen.methods import AGENT, ALONE, LABELS, PUBLISHED, REPLAY_PUBLISHED, short
from popbandits_experiments.paper.score_tables import Cell, ScoreTable, score_table

OLD_DEFAULTS = {"difficulty": "easy", "score_on": "training", "levels": "uniform"}
"""Values of settings that older runs do not record."""
TRAINED_BY = (
    *("difficulty", "levels", "interval", "environments", "steps"),
    *("epochs", "minibatches", "episodes", "precision"),
)
"""Settings that runs must share to be compared, besides the number of steps; populations also share `score_on`."""
TEXTS = {"game", "difficulty", "score_on", "levels", "precision"}
LEVELS = {"test": "Test returns", "train": "Training returns"}
NOTE = (
    "Mean ± standard deviation over runs, of the member with the best {episodes} in the end. "
    "Bold: at least three runs, within one standard deviation of the best mean of the game. "
    "{few}: fewer than three runs. "
    "p: Welch's t-test against {baseline}; ★: better than it with p < 0.05. "
    "Published: arXiv:2106.15883, easy levels, learning rate on a linear scale, 25M steps a member, five runs; "
    "its PPO and UCB-DrAC are from arXiv:2006.12862."
)
REPLAYS = {"replay": "prioritised level replay", "shuffled": "level replay with shuffled scores"}
EPISODES = {"training": "last 100 training episodes", "validation": "episodes on the validation levels"}


@dataclass(frozen=True)
class Trial:
    """A run of the experiment."""

    run: Run

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of its agents."""
        found: dict[str, Any] = self.run.about["agent"]["settings"]
        return OLD_DEFAULTS | found

    @property
    def population(self) -> int:
        """Number of members."""
        return int(self.run.about["size"])

    @property
    def variant(self) -> tuple[str, ...]:
        """Departures from the paper in what is tuned, or from the published values of a single agent."""
        if self.run.space.fixed:
            values = self.run.space.complete({})
            known = {name: value for name, value in (*PUBLISHED.items(), *REPLAY_PUBLISHED.items()) if name in values}
            return tuple(_said(name, values[name]) for name, value in known.items() if values[name] != value)
        logarithmic = any(number.name == "lr" and number.log for number in self.run.space.numerical)
        method = self.run.about.get("method") or {}
        departures = {
            "learning rate on a log scale": logarithmic,
            "started from the published settings": self.run.about.get("start"),
            "model of continued intervals": method.get("settings", {}).get("continued_only"),
            "model that sees the score before": method.get("settings", {}).get("score_before"),
        }
        return tuple(name for name, departs in departures.items() if departs)

    @property
    def trained_by(self) -> tuple[Any, ...]:
        """Settings that runs must share to be compared."""
        return tuple(self.settings[name] for name in TRAINED_BY)

    @property
    def steps(self) -> int:
        """Environment steps of each member."""
        return int(self.run.about["rounds"]) * int(self.settings["interval"])

    @property
    def method(self) -> str:
        """Label of the method that tuned it, or of the algorithm of a single agent."""
        return ALONE.get(self.settings["algorithm"], self.run.method) if self.run.space.fixed else self.run.method

    @property
    def row(self) -> str:
        """Label of its row in a table: a single agent with values of its own has one of its own."""
        return ", ".join([self.method, *self.variant]) if self.run.space.fixed else self.method

    @property
    def final(self) -> Observation | None:
        """The best-scoring observation among the members tested in the last round."""
        return max(self.tested, key=lambda o: (o.score, -o.member), default=None)

    @property
    def tested(self) -> list[Observation]:
        """Observations of the members tested in the last round."""
        last = [self.run.history.find((member, self.run.about["rounds"] - 1)) for member in range(self.population)]
        return [o for o in last if o is not None and all(f"{levels}_return" in o.metrics for levels in LEVELS)]

    @property
    def done(self) -> bool:
        """True if the run is finished and was tested at the end."""
        return self.run.status.state == "finished" and self.final is not None

    def result(self, levels: str) -> float:
        """Return the mean return of the best member of a run that is done."""
        assert self.final is not None
        return float(self.final.metrics[f"{levels}_return"])


def _said(name: str, value: Any) -> str:
    return f"{name} {value:g}" if is_real(value) else f"{name} {value}"


def trials(
    directories: Iterable[str | Path], unreadable: Callable[[HistoryError], object] | None = None
) -> list[Trial]:
    """Read the runs of the experiment in these folders; pass errors of unreadable files to `unreadable`, or raise."""
    runs = []
    for folder in run_folders(directories):
        try:
            if (folder / RUN_FILE).exists():
                run = Run.read(folder)
                if current(str((run.about.get("agent") or {}).get("make"))) == AGENT:
                    runs.append(_check(Trial(run)))
        except HistoryError as error:
            if unreadable is None:
                raise
            unreadable(error)
    kept = [one for one in runs if one.method in LABELS.values()]
    if not kept:
        where = ", ".join(map(str, directories))
        raise HistoryError(f"a table needs runs of `popbandits procgen`, got none in {where}; run some first")
    return kept


def _check(trial: Trial) -> Trial:
    """Return the trial; raise HistoryError if its record lacks what the tables need."""
    settings, file = trial.settings, trial.run.directory / RUN_FILE
    for name in ("game", "score_on", *TRAINED_BY):
        value = settings.get(name)
        if not isinstance(value, str if name in TEXTS else int) or (isinstance(value, int) and not 0 < value < 2**62):
            raise HistoryError(f"{file} is damaged: {name} is a setting of every Procgen run, got {value!r:.60}")
    if settings["score_on"] not in EPISODES:
        raise HistoryError(
            f"{file} is damaged: score_on is one of {', '.join(EPISODES)}, got {settings['score_on']!r:.60}"
        )
    if trial.run.about.get("rounds") is None or trial.run.about.get("size") is None:
        raise HistoryError(f"{file} is damaged: a Procgen run has rounds and a size, got none")
    for observation in trial.tested:
        for levels in LEVELS:
            if not is_real(value := observation.metrics[f"{levels}_return"]) or not math.isfinite(value):
                raise HistoryError(f"{file} is damaged: a return is a finite number, got {value!r:.60}")
    return trial


def comparable(given: Sequence[Trial]) -> Iterator[list[Trial]]:
    """Group finished trials by budget, settings, population size and variant; each group includes the single agents.

    What a score is matters to populations only. An agent alone trains the same with both kinds, so it stands in the
    groups of both, and a seed that ran with both counts once.
    """
    groups: dict[tuple[Any, ...], dict[tuple[Any, ...], list[Trial]]] = {}
    for one in given:
        if one.done:
            kind = () if one.run.space.fixed else (one.settings["score_on"], one.population, one.variant)
            groups.setdefault((one.steps, *one.trained_by), {}).setdefault(kind, []).append(one)
    for kinds in (groups[key] for key in sorted(groups, reverse=True)):
        scores: dict[tuple[Any, ...], str] = {}
        alone = [
            one
            for one in kinds.pop((), [])
            if scores.setdefault((one.settings["game"], one.row, one.run.about["seed"]), one.settings["score_on"])
            == one.settings["score_on"]
        ]
        yield from ([*alone, *kinds[kind]] for kind in sorted(kinds)) if kinds else [alone]


def score_tables(group: Sequence[Trial]) -> dict[str, ScoreTable]:
    """Build the table of each set of levels from finished trials."""
    order = [*LABELS.values()]
    tasks: dict[str, dict[str, list[Trial]]] = {}
    for one in sorted(group, key=lambda one: (one.settings["game"], order.index(one.method), one.row)):
        tasks.setdefault(one.settings["game"], {}).setdefault(one.row, []).append(one)
    return {
        levels: score_table(
            {
                task: {method: [one.result(levels) for one in runs] for method, runs in groups.items()}
                for task, groups in tasks.items()
            }
        )
        for levels in LEVELS
    }


def table(levels: str, scores: ScoreTable, group: Sequence[Trial], plain: bool) -> Table:
    """Build a table with a row for each game and method, then for each method over all games."""
    view = Table(box=box.MARKDOWN if plain else box.ROUNDED)
    for name in ("game", "method", "budget", "here", "p", "published"):
        left = name in ("game", "method", "budget")
        view.add_column(name, justify="left" if left else "right", no_wrap=True)
    sizes = {one.row: one.population for one in group}
    steps = short(group[0].steps)
    shares = published.NORMALISED if levels == "test" and scores.baseline == published.BASELINE else {}
    parts = [
        (escape(printable(game)), cells, published.RETURNS[levels].get(game)) for game, cells in scores.rows.items()
    ]
    for name, cells, known in (*parts, (f"in % of {scores.baseline}", scores.normalised, shares)):
        for method, cell in cells.items():
            budget = f"{sizes[method]} × {steps}, {counted(len(cell.values), 'run')}"
            figure = (known or {}).get(method) if group[0].settings["difficulty"] == "easy" else None
            there = "–" if figure is None else "{:.1f} ± {:.1f}".format(*figure)
            p = "" if math.isnan(cell.p) else f"{cell.p:.2g}"
            view.add_row(name, method, budget, _here(cell, plain), p, there, style="dim" if cell.few else None)
        if not plain:  # Markdown tables have no sections.
            view.add_section()
    return view


def _here(cell: Cell, plain: bool) -> str:
    spread = deviation(cell.values)
    text = f"{cell.mean:.1f}" if math.isnan(spread) else f"{cell.mean:.1f} ± {spread:.1f}"
    if cell.best:
        text = f"**{text}**" if plain else f"[bold]{text}[/bold]"
    elif cell.few and plain:  # Markdown has no grey.
        text = f"*{text}*"
    return f"{text} ★" if cell.starred else text


def print_tables(given: Sequence[Trial], console: Console | None = None) -> None:
    """Print the tables of finished runs, with lines on a terminal, else as Markdown; list unfinished runs."""
    console = console or Console()
    plain = not console.is_terminal
    if plain:
        console.width = 10_000
    for group in comparable(given):
        one = group[-1]  # Single agents, whose rows have names of their own, come first.
        how = [f"{short(one.steps)} steps a member in intervals of {short(one.settings['interval'])}"]
        how.append("rollouts of {environments} × {steps}, {precision}".format(**one.settings))
        if one.settings["difficulty"] != "easy":
            how.insert(0, f"{one.settings['difficulty']} levels")
        if one.settings["levels"] != "uniform":
            how.append(REPLAYS.get(one.settings["levels"], one.settings["levels"]))
        how += () if one.run.space.fixed else one.variant
        for levels, scores in score_tables(group).items():
            console.print(f"{LEVELS[levels]}: {printable(', '.join(how))}", style="bold", highlight=False, markup=False)
            console.print(table(levels, scores, group, plain), highlight=False)
            episodes, few = EPISODES[one.settings["score_on"]], "Italic" if plain else "Grey"
            note = NOTE.format(baseline=scores.baseline, episodes=episodes, few=few)
            console.print(f"{note}\n", highlight=False, soft_wrap=True)
    for one in given:
        if not one.done:
            now = one.run.status
            why = (
                f"{now.round} of {now.rounds} rounds" if now.state != "finished" else "no member was tested at its end"
            )
            left = f"Left out: {visible(str(one.run.directory))}, {now.state}, {why}"
            console.print(left, highlight=False, markup=False, soft_wrap=True)
