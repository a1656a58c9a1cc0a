"""The views for a terminal: a live screen, or plain lines if the output is not a terminal."""

import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from popbandits.basics.wording import clock, counted, duration, first_line, number, printable, setting
from popbandits.history import Decision, Event, Observation
from popbandits.population import Population
from popbandits.space.remarks import remarks
from popbandits.views.capture import OutputCapture
from popbandits.views.progress import Member, Progress, State, copied_from
from popbandits.views.view import View

MIN_REDRAW_SECONDS = 0.25
"""Minimum seconds between two drawings."""
MAX_CPU_SHARE = 0.01
"""Maximum share of one core used for drawing; pauses grow with the time that drawing takes."""
TOP_MEMBERS, BOTTOM_MEMBERS = 10, 2
"""Number of members shown from the top and the bottom of a larger population."""
MIN_MEMBER_LINES = BOTTOM_MEMBERS + 2
"""Number of lines for members on the smallest terminal."""
COLUMNS = ("member", "state", "round", "score", "change", "copied")
COLUMN_GAP = 2
MAX_COPIES_NAMED, MAX_FAILURE_LINES = 6, 3
"""Maximum number of copies named in a line, and of failures per round with their own line."""

STYLES: dict[State, str] = {"training": "cyan", "waiting": "dim", "idle": "dim", "failed": "red", "done": "green"}


def terminal_view(workers: int | None = None) -> View:
    """Return a live view if the standard error is a terminal, else one that prints a line per round.

    `workers` is the number of members that train at a time; None for all.
    """
    if sys.stderr is None:
        return View()
    capable = sys.stderr.isatty() and os.isatty(2) and os.environ.get("TERM") not in ("dumb", "unknown")
    return LiveView(workers) if capable else LineView(workers)


class LineView(Progress):
    """A view that prints a line for every round; in asynchronous mode, whenever as many intervals have ended."""

    def opened(self, population: Population, directory: Path) -> None:
        """Print the run's folder, method and size."""
        super().opened(population, directory)
        self._since, self._copies = self.begun, list[str]()
        self._failed = self._named = 0  # since the last line
        rounds = "no set end" if population.rounds is None else counted(population.rounds, "round")
        went = f", {counted(self.done, 'interval')} done" if self.done else ""
        _say(f"{directory}: {self.who}, {rounds}{went}")
        _remark(population)

    def asked(self, decisions: Sequence[Decision]) -> None:
        """Note which member copies which."""
        super().asked(decisions)
        for assignment in (decision.assignment for decision in decisions):
            if (source := copied_from(assignment.member, assignment.parent)) is not None:
                self._copies.append(f"{assignment.member} copied {source}")

    def told(self, observation: Observation) -> None:
        """Print the results of a round when its last member is done."""
        super().told(observation)
        self._failed += observation.failed
        if self.done % len(self.members):
            return
        now = time.monotonic()
        whole = "" if self.population.rounds is None else f"/{self.population.rounds}"
        best = number(self.best.score) if self.best is not None else "–"
        parts = [f"{self.done // len(self.members)}{whole} rounds", f"best {best}", f"mean {number(self.mean)}"]
        parts.append(duration(now - self._since))
        more = len(self._copies) - MAX_COPIES_NAMED
        copies = [*self._copies[:MAX_COPIES_NAMED], *([f"{more} more"] if more > 0 else [])]
        parts += [", ".join(copies)] if copies else []
        parts += [f"{self._failed} failed"] if self._failed else []
        _say("  ".join(parts))
        self._since, self._failed, self._named = now, 0, 0
        self._copies.clear()

    def happened(self, event: Event) -> None:
        """Print failures, and the end of the run."""
        super().happened(event)
        if event.member is not None:
            self._named += 1
            if self._named <= MAX_FAILURE_LINES:
                _say(_failure(event))
        elif event.kind in ("evaluating", "stopping", "stopped", "finished"):
            _say(_ending(self))
            for warning in self.warnings() if event.kind in ("stopped", "finished") else ():
                _say(f"Warning: {warning}")


def _say(line: str) -> None:
    # A view must not affect a run: neither a log that is full or gone may end it, nor a Ctrl-C in the middle of a line.
    with suppress(OSError, ValueError, RuntimeError):
        print(line, file=sys.stderr, flush=True)


def _remark(population: Population) -> None:
    for remark in remarks(population.space, population.size, population.explore):
        _say(f"Warning: {printable(remark)}")


def _failure(event: Event) -> str:
    return f"member {event.member}, round {event.round}: {event.kind}: {first_line(event.text)}"


def _ending(progress: Progress) -> str:
    match progress.ending:
        case "stopping":
            if progress.reason:
                return f"Stopping after the intervals in training: {printable(progress.reason)}."
            return "Stopping after the intervals in training. Ctrl-C again stops at once."
        case "stopped":
            return f"Stopped. To resume: popbandits resume {progress.directory}"
        case "finished":
            if progress.done == progress.done_before and not progress.evaluation:
                rounds = counted(progress.population.rounds or 0, "round")
                more = f"popbandits resume {progress.directory} --rounds N"
                return f"Nothing to do: every member has finished its {rounds}. To train more: {more}"
            return f"Finished in {duration(progress.elapsed)}. {progress.evaluation}".rstrip()
    if progress.evaluation:
        return progress.evaluation
    return "Ctrl-C stops it after the intervals in training; it can be resumed."


class LiveView(Progress):
    """A live screen, redrawn by its own thread, so that the clock advances while an agent trains."""

    _thread: threading.Thread | None = None

    def opened(self, population: Population, directory: Path) -> None:
        """Start drawing."""
        super().opened(population, directory)
        _remark(population)
        try:
            self._printed = OutputCapture()
        except OSError:  # A full disk: a run does not need a view.
            return
        console = Console(file=self._printed.terminal, force_terminal=True)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._live.start()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_drawing, name="popbandits-view", daemon=True)
        self._thread.start()

    def closed(self) -> None:
        """Leave the last state on the screen, with warnings below it."""
        if self._thread is None:
            return
        self._ended.set()
        self._thread.join()
        last = self._printed.close()
        with suppress(OSError):  # The terminal may be gone.
            self._draw(last)
            self._live.stop()
            for warning in self.warnings() if self.ending else ():
                self._live.console.print(Text(f"Warning: {warning}", "yellow"))
            self._printed.terminal.close()

    def _keep_drawing(self) -> None:
        with suppress(OSError):
            while not self._ended.is_set():
                before = time.thread_time()
                self._draw(self._printed.read())
                self._ended.wait(max(MIN_REDRAW_SECONDS, (time.thread_time() - before) / MAX_CPU_SHARE))

    def _draw(self, printed: str) -> None:
        console = self._live.console
        if printed:
            console.print(Text.from_ansi(printed.rstrip("\n")), soft_wrap=True)
        with self.lock:
            page = screen(self, console.width, console.height)
        self._live.update(page, refresh=True)


# The screen


def screen(progress: Progress, width: int, height: int) -> RenderableType:
    """Draw everything, for a terminal of this size."""
    room = height - 8  # Other lines below, and the cursor's line, take 8.
    failures = list(progress.failures)
    failures = failures[max(0, len(failures) - max(0, room - MIN_MEMBER_LINES)) :]
    parts: list[RenderableType] = [_title(progress), _pace(progress, width), _scores(progress), ""]
    parts += [_members(progress, width, room - len(failures)), ""]
    parts += [Text(_failure(event), "red", no_wrap=True, overflow="ellipsis") for event in failures]
    parts.append(Text(_ending(progress), "dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def _title(progress: Progress) -> RenderableType:
    line = Table.grid(expand=True)
    line.add_column(no_wrap=True, overflow="ellipsis")
    line.add_column(justify="right", no_wrap=True, style="dim")
    line.add_row(Text(printable(str(progress.directory)), "bold"), Text(progress.who))
    return line


def _pace(progress: Progress, width: int) -> RenderableType:
    rounds = progress.done // len(progress.members)
    times = f"{clock(progress.elapsed)} elapsed"
    if not progress.ending.startswith(("stopped", "finished")) and progress.left is not None:
        times += f", about {clock(progress.left)} left"
    if progress.total is None:
        return Text(f"{counted(rounds, 'round')} done   {times}")
    line = Table.grid(padding=(0, 2))
    bar = ProgressBar(
        progress.total, progress.done, max(10, min(40, width - 50)), complete_style="cyan", finished_style="green"
    )
    line.add_row(f"{rounds} of {counted(progress.total // len(progress.members), 'round')}", bar, Text(times, "dim"))
    return line


def _scores(progress: Progress) -> RenderableType:
    best = progress.best
    line = Text("Best ", no_wrap=True, overflow="ellipsis")
    if best is None:
        line.append("–")
    else:
        line.append(number(best.score), "bold green")
        line.append(f" (member {best.member}, round {best.round})", "dim")
    line.append(f"   mean {number(progress.mean)}")
    if progress.deciding is not None:
        line.append(f"   deciding took {duration(progress.deciding)}", "dim")
    if progress.failed:
        line.append(f"   {progress.failed} failed", "red")
    return line


def _members(progress: Progress, width: int, room: int) -> RenderableType:
    states = progress.states()
    shown: list[int | None] = list(range(len(states)))
    room = max(MIN_MEMBER_LINES, min(TOP_MEMBERS + 1 + BOTTOM_MEMBERS, room))
    if len(shown) > room:
        ranking = progress.ranking()
        shown = [*ranking[: room - 1 - BOTTOM_MEMBERS], None, *ranking[-BOTTOM_MEMBERS:]]
    rows = [_gap(len(states) - len(shown) + 1) if m is None else _row(progress.members[m], states[m]) for m in shown]
    configs = [{} if m is None else _config(progress, progress.members[m]) for m in shown]
    table = Table(box=None, pad_edge=False, padding=(0, COLUMN_GAP, 0, 0), header_style="dim")
    for index, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
        width -= COLUMN_GAP + max(len(name), *(row[index].cell_len for row in rows))
    names = _fitting(_varied(progress), configs, width)
    for name in names:
        table.add_column(Text(printable(name)), no_wrap=True)
    if hidden := len(_varied(progress)) - len(names):
        table.add_column(f"+{hidden}")
    for row, config in zip(rows, configs, strict=True):
        table.add_row(*row, *(config.get(name, "") for name in names))
    return table


def _row(member: Member, state: State) -> list[Text]:
    last, at = member.last, member.next or member.last
    score = change = source = Text()
    if last is not None and last.failed:
        score = Text("failed", "red")
    elif last is not None:
        score = Text(number(last.score))
        change = Text("" if math.isnan(last.change) else f"{number(last.change, 3, sign='+')}", "dim")
    if at is not None and (copied := copied_from(member.number, at.parent)) is not None:
        source = Text(f"← {copied}", "magenta")
    round_ = Text("" if at is None else str(at.round))
    return [Text(str(member.number)), Text(state, STYLES[state]), round_, score, change, source]


def _gap(others: int) -> list[Text]:
    return [Text("⋮"), Text(counted(others, "other"), "dim"), *[Text()] * (len(COLUMNS) - 2)]


def _varied(progress: Progress) -> list[str]:
    """List the hyperparameters that have more than one value, in the order of the space."""
    space = progress.population.space
    varied = {parameter.name for parameter in (*space.numerical, *space.categorical)}
    return [name for name in space.names if name in varied]


def _config(progress: Progress, member: Member) -> dict[str, Text]:
    """Return the values of a member's hyperparameters, with new values in bold."""
    at = member.next or member.last
    if at is None:
        return {}
    space = progress.population.space
    now = space.flatten(space.applied(at.config, at.round))
    # A value that only follows its schedule is not new.
    before = space.flatten(space.applied(member.last.config, at.round)) if member.last is not None else now
    return {name: Text(setting(v), "" if name in before and before[name] == v else "bold") for name, v in now.items()}


def _fitting(names: Sequence[str], configs: Sequence[dict[str, Text]], width: int) -> list[str]:
    """Return as many of the first hyperparameters as fit, with room for a count of the others."""
    widths = [COLUMN_GAP + max([cell_len(name), *(c[name].cell_len for c in configs if name in c)]) for name in names]
    taken = list(accumulate(widths))
    if taken and taken[-1] <= width + COLUMN_GAP:
        return list(names)
    return [name for name, end in zip(names, taken, strict=True) if end + len("+99") <= width]
