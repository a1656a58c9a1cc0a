"""Trials in processes of their own, and counts of what held."""

import json
import os
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from popbandits import History
from popbandits.errors import PopbanditsError
from popbandits_experiments.reliability.kills import contents, in_order
from popbandits_experiments.reliability.syscalls import in_a_child

PATIENCE = 120.0
"""Seconds after which a trial counts as hanging."""

WAY_ON = re.compile(
    r"resume|try again|give another|free space|\bremove\b|\bfix\b|copy its folder|disk image is malformed"
)
"""What a message must offer; SQLite's own word for a single read that failed leaves nothing to offer."""

PROPERTIES = ("history changed", "raw errors", "hangs", "unclear messages", "files outside")


@dataclass(frozen=True)
class Outcome:
    """How a trial ended: "done", "said" (one of our errors), "raw" (any other), "hang" or "died"."""

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
    refused: int = 0
    """Trials that ended with a message."""
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
        self.refused += outcome.ended == "said"
        self.check(outcome.ended not in ("raw", "died"), "raw errors", f"{where}\n{outcome.text}\n{outcome.printed}")
        self.check(outcome.ended != "hang", "hangs", f"{where}\n{outcome.printed}")
        if outcome.ended == "said" and path is not None:
            clear = str(path) in outcome.text and WAY_ON.search(outcome.text) is not None
            self.check(clear, "unclear messages", f"{where}\n{outcome.text}")

    def __str__(self) -> str:
        counts = (self.trials, self.refused, *(self.broken[name] for name in PROPERTIES))
        return f"| {self.attack} | {' | '.join(f'{count:,}' for count in counts)} |"


def table(tallies: Iterable[Tally]) -> str:
    """Return the counts as a table in Markdown."""
    head = f"| attack | trials | ended with a message | {' | '.join(PROPERTIES)} |\n|{'---|' * (3 + len(PROPERTIES))}"
    return "\n".join([head, *map(str, tallies)])


def attempt(work: Callable[[], Any], scratch: Path, seconds: float = PATIENCE, interrupts: int = 0) -> Outcome:
    """Do work in a forked process, and return how it ended.

    Args:
        work: What to do; its result must be JSON.
        scratch: Folder for what it prints and returns.
        seconds: Time after which it hangs.
        interrupts: Number of Ctrl-C's that it gets first, one after another, each after such a time.
    """
    printed, returned = scratch / "printed", scratch / "returned"
    returned.unlink(missing_ok=True)

    def quietly() -> None:
        handle = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = (os.fdopen(each, "w", closefd=False) for each in (1, 2))

    def report() -> None:
        try:
            ended, text, result = "done", "", work()
        except PopbanditsError as error:
            ended, text, result = "said", str(error), None
        except BaseException as error:
            ended, text, result = "raw", "".join(traceback.format_exception(error)), None
        sys.stdout.flush()
        part = returned.with_suffix(".part")
        part.write_text(json.dumps([ended, text, result]))
        part.rename(returned)

    pid = in_a_child(report, quietly)
    status = _wait(pid, seconds, interrupts)
    text = printed.read_text(errors="replace") if printed.exists() else ""
    if status is None:
        return Outcome("hang", printed=text)
    if not returned.exists():
        return Outcome("died", f"wait status {status}", text)
    ended, said, result = json.loads(returned.read_text())
    return Outcome(ended, said, text, result)


def _wait(pid: int, seconds: float, interrupts: int) -> int | None:
    """Return the wait status of a child; None if it had to be killed."""
    for left in range(interrupts, -1, -1):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status
            time.sleep(0.002)
        os.kill(pid, signal.SIGINT if left else signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def command(*words: object) -> int:
    """Run a command line of popbandits in this process; its message becomes an error, as the tests of an API see it."""
    from io import StringIO

    from popbandits.cli import main

    shown, sys.stderr = sys.stderr, StringIO()
    try:
        status = main([str(word) for word in words])
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 1
    finally:
        said, sys.stderr = sys.stderr.getvalue(), shown
        sys.stderr.write(said)
    if status not in (0, 130):
        raise PopbanditsError(said)
    return status


def same_run(directory: Path, whole: Path) -> bool:
    """Tell whether two runs have the same history and the same checkpoints."""
    histories = (in_order(History.load(each)) for each in (directory, whole))
    return next(histories) == next(histories) and contents(directory) == contents(whole)


def snapshot(folder: Path, without: Iterable[str]) -> dict[str, bytes]:
    """Return the files below a folder and their contents, except those below folders of some names in it."""
    left_out = set(without)
    return {
        str(path): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in left_out
    }
