"""The state of runs, read from their files with a few queries, however long they are, also while they train."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from popbandits.basics.arithmetic import mean
from popbandits.basics.wording import age, first_line, number, printable
from popbandits.methods import find_method, named_by
from popbandits.space import Space
from popbandits.storage import Store
from popbandits.storage.folders import last_write
from popbandits.storage.lock import is_running
from popbandits.storage.queries import counts, last_evaluation, last_scores, last_turn
from popbandits.storage.store import reading

State = Literal["running", "finished", "stopped", "killed"]
STYLES: dict[State, str] = {"running": "cyan", "finished": "green", "stopped": "", "killed": "red"}


COLUMNS = ("run", "state", "method", "rounds", "best", "mean", "failed", "begun", "changed")
"""Columns of tables of runs."""


@dataclass(frozen=True)
class Status:
    """The state of a run. Unknown values are None."""

    directory: str
    state: State
    method: str | None
    size: int | None
    rounds: int | None
    round: int
    """Number of intervals by number of members, rounded down."""
    intervals: int
    failures: int
    """Number of intervals that failed."""
    best: float | None
    best_key: tuple[int, int] | None
    """Member and round of the best score."""
    mean: float | None
    """Mean of the members' last scores."""
    begun: float | None
    """Time of the first start, in seconds since 1970."""
    changed: float
    """Time of the last write to its file."""
    handed_over: str | None = None
    """The checkpoint that its evaluation chose, in words."""


def status(directory: str | Path) -> Status:
    """Read the state of the run in a folder."""
    directory = Path(directory)
    active = is_running(directory)  # Before its file is read, so that a run that ends meanwhile is not called killed.
    with reading(directory) as store:
        about = store.about
        store.begin()  # one snapshot
        intervals, failures, seen = counts(store)
        members = about.get("size") or seen or 1
        best, last = store.best(), last_scores(store)
        rounds = about.get("rounds")
        state = state_of(store, active, rounds is not None and intervals >= members * rounds)
        return Status(
            directory=str(directory),
            state=state,
            method=method_name(about, store.space),
            size=about.get("size"),
            rounds=rounds,
            round=intervals // members,
            intervals=intervals,
            failures=failures,
            best=None if best is None else best.score,
            best_key=None if best is None else best.key,
            mean=mean(last) if last else None,
            begun=about.get("created"),
            changed=last_write(directory),
            handed_over=None if (event := last_evaluation(store)) is None else first_line(event.text, 200),
        )


def state_of(store: Store, active: bool, complete: bool) -> State:
    """Return the state of a run, given whether a process runs it and whether it has all its intervals."""
    if active:
        return "running"
    if complete:
        return "finished"
    ends: dict[str | None, State] = {"started": "killed", "resumed": "killed", "finished": "finished"}
    return ends.get(last_turn(store), "stopped")


def rounds_done(done: int, rounds: int | None, of: str = " of ") -> str:
    """Return how many rounds are done, of how many if that is known.

    >>> rounds_done(3, 9), rounds_done(3, None)
    ('3 of 9', '3')
    """
    return str(done) if rounds is None else f"{done}{of}{rounds}"


def method_name(about: Mapping[str, Any], space: Space) -> str | None:
    """Name the method of a run by its metadata; None if it is not on record."""
    if about.get("name"):
        return printable(str(about["name"]))
    if space.fixed:
        settings = (about.get("agent") or {}).get("settings", {})
        return printable(str(settings.get("algorithm", "Fixed settings")))
    name, own = named_by("method", about.get("method") or {})
    return (printable(own) or None) if name is None else find_method(name).label


def selection_name(about: Mapping[str, Any]) -> str:
    """Name the class of a run's selection; old runs without a record of it had truncation."""
    return named_by("selection", about.get("selection") or {})[1] or "Truncation"


def table(statuses: Sequence[Status]) -> Table:
    """Make a table with a row for each run."""
    view = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in COLUMNS:
        left = name in ("run", "state", "method")
        view.add_column(name, justify="left" if left else "right", no_wrap=name != "run", overflow="fold")
    now = time.time()
    for one in statuses:
        view.add_row(
            Text(printable(one.directory)),
            Text(one.state, STYLES[one.state]),
            Text(one.method or "–"),
            rounds_done(one.round, one.rounds, "/"),
            number(one.best),
            number(one.mean),
            str(one.failures),
            "–" if one.begun is None else f"{age(now - one.begun)} ago",
            f"{age(now - one.changed)} ago",
        )
    return view


def print_table(statuses: Sequence[Status], console: Console | None = None) -> None:
    """Print the table: on a terminal within its width, elsewhere at full width."""
    console = console or Console()
    view = table(statuses)
    if not console.is_terminal:
        console.width = 10_000
        console.width = console.measure(view).maximum
    console.print(view, highlight=False)
    for one in statuses:
        if one.handed_over is not None:
            told = f"{printable(one.directory)} hands over {printable(one.handed_over)}"
            console.print(Text(told), soft_wrap=True)
