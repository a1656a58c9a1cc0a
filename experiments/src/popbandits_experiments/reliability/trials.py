"""Trials in processes of their own, and counts of what held."""

import json
import multiprocessing
import os
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from popbandits import PBT, History, resume, tune
from popbandits.errors import HistoryError, PopbanditsError
from popbandits_experiments.reliability.walker import SPACE, Walker

PATIENCE = 300.0
"""Seconds after which a trial counts as hanging."""

WAY_ON = re.compile(
    r"resume|try again|give another|free space|\bremove\b|\bfix\b|copy its folder|disk image is malformed"
)
"""What a message must offer; SQLite's own word for a single read that failed leaves nothing to offer."""

PROPERTIES = ("history changed", "raw errors", "hangs", "unclear messages", "left behind")
RUN: dict[str, Any] = {"method": PBT(), "rounds": 4, "population": 3, "progress": False}
"""Settings of the runs that are attacked."""


@dataclass(frozen=True)
class Outcome:
    """How a trial ended: "done", "said" (one of our errors), "raw" (any other), "hang", "killed" or "died"."""

    ended: str
    text: str = ""
    printed: str = ""
    """Standard output and error, together."""
    result: Any = None
    """What the work returned, as JSON."""


@dataclass
class Tally:
    """Counts of an attack; those of `broken` must be 0."""

    attack: str
    trials: int = 0
    ended: int = 0
    """Trials that the attack ended: with a message, or by a kill."""
    broken: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def check(self, held: bool, what: str, example: object) -> bool:
        """Count a property that does not hold, with an example."""
        if not held:
            self.broken[what] += 1
            self.examples.append(f"{self.attack}: {what}: {example}")
        return held

    def judge(self, outcome: Outcome, path: Path | None, where: object) -> None:
        """Count a trial, and judge how it ended; a message must name a path, unless it is None."""
        self.trials += 1
        self.ended += outcome.ended in ("said", "killed")
        self.check(outcome.ended not in ("raw", "died"), "raw errors", f"{where}\n{outcome.text}\n{outcome.printed}")
        self.check(outcome.ended != "hang", "hangs", f"{where}\n{outcome.printed}")
        if outcome.ended == "said" and path is not None:
            clear = str(path) in outcome.text and WAY_ON.search(outcome.text) is not None
            self.check(clear, "unclear messages", f"{where}\n{outcome.text}")


def table(tallies: Iterable[Tally]) -> str:
    """Return the counts as a table in Markdown."""
    lines = [f"| attack | trials | ended by it | {' | '.join(PROPERTIES)} |", f"|{'---|' * 8}"]
    for tally in tallies:
        counts = (tally.trials, tally.ended, *(tally.broken[name] for name in PROPERTIES))
        lines.append(f"| {tally.attack} | {' | '.join(f'{count:,}' for count in counts)} |")
    return "\n".join(lines)


def attempt(work: Callable[[], Any], scratch: Path) -> Outcome:
    """Do work in a forked process, and return how it ended.

    Args:
        work: What to do; its result must be JSON.
        scratch: Folder for what it prints and returns.
    """
    printed, returned = scratch / "printed", scratch / "returned"
    scratch.mkdir(exist_ok=True)
    returned.unlink(missing_ok=True)

    def report() -> None:
        handle = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        try:
            sys.stdout, sys.stderr = (os.fdopen(each, "w", closefd=False) for each in (1, 2))
            ended, text, result = "done", "", work()
        except PopbanditsError as error:
            ended, text, result = "said", str(error), None
        except BaseException as error:
            ended, text, result = "raw", "".join(traceback.format_exception(error)), None
        sys.stdout.flush()
        part = returned.with_suffix(".part")
        part.write_text(json.dumps([ended, text, result]))
        part.rename(returned)
        os._exit(0)  # It waits for no thread that hangs.

    sys.stdout.flush()
    process = multiprocessing.get_context("fork").Process(target=report)
    process.start()
    try:
        process.join(PATIENCE)
    finally:
        hangs = process.is_alive()
        process.kill()
        process.join()
    text = printed.read_text(errors="replace") if printed.exists() else ""
    if hangs:
        return Outcome("hang", printed=text)
    if not returned.exists():
        ended = "killed" if process.exitcode == -signal.SIGKILL else "died"
        return Outcome(ended, f"exit status {process.exitcode}", text)
    ended, said, result = json.loads(returned.read_text())
    return Outcome(ended, said, text, result)


def begin_or_resume(directory: Path, **settings: Any) -> None:
    """Resume a run, or begin it if it was killed before it began."""
    engine, workers = (settings.get(name) for name in ("engine", "workers"))
    try:
        resume(directory, progress=False, engine=engine or "in-process", workers=workers)
    except HistoryError:
        tune(Walker, SPACE, directory=directory, **(RUN | settings))


def command(*words: object) -> None:
    """Run a command line of popbandits in this process; its message becomes an error."""
    from popbandits.cli import main

    status: object
    with redirect_stderr(StringIO()) as said, redirect_stdout(StringIO()):
        try:
            status = main([str(word) for word in words])
        except SystemExit as exit_:
            status = exit_.code
    if status != 0:
        raise PopbanditsError(said.getvalue())


def observations(directory: Path) -> list[Any]:
    """Return what is on record in the order of members and rounds; nothing if there is no run yet."""
    try:
        return sorted(History.load(directory), key=lambda o: o.key)
    except HistoryError as error:
        if "holds no run" in str(error):
            return []
        raise


def same_run(directory: Path, whole: Path) -> bool:
    """Tell whether two runs have the same history and the same checkpoints."""
    return observations(directory) == observations(whole) and checkpoints(directory) == checkpoints(whole)


def checkpoints(directory: Path) -> dict[str, bytes | None]:
    """Return the contents of all files in a run's folder of checkpoints, and None for its folders."""
    folder = directory / "checkpoints"
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def processes_left(mark: str, seconds: float = 60.0) -> int:
    """Return how many other processes have a text in their environment after a grace period."""
    deadline = time.monotonic() + seconds
    while True:
        living = 0
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                living += int(entry.name) != os.getpid() and mark.encode() in (entry / "environ").read_bytes()
        if not living or time.monotonic() > deadline:
            return living
        time.sleep(0.1)
