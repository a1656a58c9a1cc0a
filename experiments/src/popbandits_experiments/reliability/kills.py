"""Test that runs survive kills at file-system calls, and agents that fail in two intervals of five.

    python -m popbandits_experiments.reliability [--kills 500] [--rounds 25] [--engines in-process threads processes]
    python -m popbandits_experiments.reliability --workers 5 --seconds 480 --json kills.json    # as many kills as fit

Kills: a run is killed just before its k-th call that changes a file system (its own and SQLite's alike), resumed, every
other time killed and resumed again, and then runs to its end. Its history and checkpoints must be those of a run that
was never killed. `--kills` is the number of calls for each engine, synchronous and asynchronous; they are spread evenly
over the run, even if `--seconds` ends the command before all were tried.

Faults: each interval fails with a probability of 40%, in a random way. Every interval must be on record
once, and every failure with its reason.

The command fails if any count that must be 0 is not. If interrupted, it prints the counts so far.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from popbandits import PBT, History, Observation, resume, tune
from popbandits.errors import HistoryError, RunError
from popbandits.storage.store import Store
from popbandits_experiments.paper.parallel import in_processes
from popbandits_experiments.reliability.hostile import Hostile
from popbandits_experiments.reliability.syscalls import can_trace, in_a_child, killed_at
from popbandits_experiments.reliability.tallies import ENGINES, Results, Tally
from popbandits_experiments.reliability.walker import Walker, space

MARK = "POPBANDITS_RELIABILITY"
"""Environment variable that marks the processes of a run."""
PATIENCE = 300.0
"""Seconds after which a run counts as hanging."""
AT_A_TIME = 10
"""Number of calls at which one job kills runs."""


# Kills

KILLED: dict[str, Any] = {"method": PBT(), "rounds": 4, "population": 3, "progress": False}


def begin_or_resume(directory: Path, **settings: Any) -> None:
    try:
        resume(directory, progress=False, engine=settings["engine"], workers=settings["workers"])
    except HistoryError:  # Killed before there was a run.
        tune(Walker, space(), directory=directory, **(KILLED | settings))


def survive_kills(
    engine: str, synchronous: bool, kills: int, folder: Path, part: int = 0, parts: int = 1, until: float = float("inf")
) -> Tally:
    """Kill runs at this number of calls, or at all calls if there are fewer.

    Args:
        part: index of the share of these calls to try, of `parts` shares that are spread over the whole run.
        until: `time.time()` after which no trial starts.
    """
    tally, instants = Tally(engine, synchronous), random.Random(part)
    if time.time() > until:
        return tally
    # One worker where members do not wait for each other: with several, the order of ends is random.
    workers = None if synchronous or engine == "in-process" else 1
    settings = {"engine": engine, "workers": workers, "synchronous": synchronous}
    if engine == "processes":
        settings["workers"] = 1
    whole = tune(Walker, space(), directory=folder / "whole", **(KILLED | {"synchronous": synchronous}))
    _, calls = killed_at(None, partial(begin_or_resume, folder / "counted", **settings))
    if not calls:
        raise RuntimeError("calls cannot be counted here: does this machine let processes be traced?")
    tally.calls, kills = calls, min(kills, calls)
    for nth, number in enumerate(range(part, kills, parts)):
        if time.time() > until:
            break
        tally.tried += 1
        directory = folder / str(number)
        work = partial(begin_or_resume, directory, **settings)
        tally.trials += killed_at(1 + number * calls // kills, work)[0]
        before = on_record(directory, tally)
        if nth % 2:
            tally.trials += killed_at(instants.randint(1, calls), work)[0]
        finish = partial(begin_or_resume, directory, **(settings | {"engine": "in-process", "workers": None}))
        if not ends(finish if engine == "processes" else work, tally):
            continue
        expected, found = in_order(whole.history), on_record(directory, tally)
        tally.lost += sum(o not in found for o in before) + sum(o not in found for o in expected)
        tally.doubled += len(found) - len({o.key for o in found})
        tally.left += len(names(directory) ^ names(whole.directory))
        tally.lost += contents(directory) != contents(whole.directory)
    tally.left += processes_left()
    return tally


def on_record(directory: Path, tally: Tally) -> list[Observation]:
    """Return the observations in a run's file, if there is one."""
    try:
        return in_order(History.load(directory))
    except HistoryError as error:
        tally.lost += "holds no run" not in str(error)
    except Exception:
        tally.tracebacks += 1
    return []


def in_order(history: History) -> list[Observation]:
    return sorted(history, key=lambda o: o.key)


def names(directory: Path) -> set[str]:
    return {path.name for path in (directory / "checkpoints").iterdir()}


def contents(directory: Path) -> dict[str, bytes]:
    """Return the checkpoints of a run, file by file."""
    folder = directory / "checkpoints"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Faults


COMMON = (
    *("raise", "surrogates", "speechless", "cancelled", "interrupt", "exit", "fundamental"),
    *("nan", "infinity", "text", "save", "unsaved", "fork", "wander"),
)
WAYS: dict[str, tuple[str, ...]] = {
    "in-process": COMMON,
    "threads": (*COMMON, "hang"),
    "processes": (*COMMON, "hang", "die", "orphan"),
}


def survive_faults(
    engine: str, synchronous: bool, ways: tuple[str, ...], rounds: int, folder: Path, limit: float = 5.0
) -> Tally:
    """Train agents that fail in these ways."""
    tally = Tally(engine, synchronous)
    maker = partial(Hostile, ways=ways)
    settings: dict[str, Any] = {"engine": engine, "rounds": rounds, "synchronous": synchronous, "progress": False}
    if engine != "in-process":
        settings["round_timeout"] = limit

    def work() -> None:
        with suppress(RunError):  # A run in which all members fail ends; a user would fix something before resuming.
            tune(maker, space(), PBT(), directory=folder, **settings)
        for _ in range(rounds):
            with suppress(RunError):
                if resume(folder, agent=maker, progress=False).done:
                    return

    if ends(work, tally):
        found = on_record(folder, tally)
        failed: Counter[Any] = Counter(o.key for o in found if o.failed)
        with Store.open(folder, readonly=True) as store:
            events = [event for event in store.events() if event.member is not None]
        recorded: Counter[Any] = Counter((event.member, event.round) for event in events)
        tally.kinds = Counter(event.kind for event in events)
        tally.trials = len(failed)
        tally.lost = 4 * rounds - len({o.key for o in found}) + sum((failed - recorded).values())
        tally.doubled = len(found) - len({o.key for o in found}) + sum((recorded - failed).values())
        tally.left = len([name for name in names(folder) if not name.startswith("member-")])
    tally.left += processes_left()
    return tally


# Both


def ends(work: Callable[[], Any], tally: Tally) -> bool:
    """Do work in its own process; return whether it ended as it should."""
    pid, deadline = in_a_child(work), time.monotonic() + PATIENCE
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            tally.tracebacks += status != 0
            return status == 0
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            tally.hangs += 1
            return False
        time.sleep(0.005)


def processes_left(seconds: float = 60.0) -> int:
    """Return the number of processes of runs that are still alive after a grace period."""
    deadline = time.monotonic() + seconds
    while True:
        living = 0
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and int(entry.name) != os.getpid():
                    living += f"{MARK}={os.environ[MARK]}".encode() in (entry / "environ").read_bytes()
        if not living or time.monotonic() > deadline:
            return living
        time.sleep(0.1)


@contextmanager
def marked() -> Iterator[Path]:
    """Make a folder for runs, and mark every process that they start."""
    with TemporaryDirectory(prefix="popbandits-reliability-") as name:
        os.environ[MARK] = name
        try:
            yield Path(name)
        finally:
            del os.environ[MARK]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500, help="kills for each engine, synchronous and asynchronous")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of a run with faults")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--workers", type=int, default=1, help="processes at a time (%(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no trial after this time (no limit)")
    parser.add_argument("--json", type=Path, help="also write the counts to this file as they arrive")
    arguments = parser.parse_args()
    if not can_trace():
        print("Calls cannot be counted on this machine: no kills.", file=sys.stderr)
        arguments.kills = 0
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that it prints the counts so far
    cells = [(engine, synchronous) for engine in arguments.engines for synchronous in (True, False)]
    until = time.time() + arguments.seconds
    faults = [partial(faults_of, *cell, arguments.rounds) for cell in cells if arguments.rounds]
    parts = -(-arguments.kills // AT_A_TIME)
    kills = [partial(kills_of, *cell, arguments.kills, part, parts, until) for part in range(parts) for cell in cells]
    results = Results()

    def take(index: int, tally: Tally) -> None:
        (results.failed if index < len(faults) else results.killed).append(tally)
        with suppress(OSError):  # Reported at the end.
            results.write(arguments.json)

    try:
        in_processes([*faults, *kills], arguments.workers, take)
    except KeyboardInterrupt:
        sys.exit("Interrupted; these are the counts so far.")
    finally:  # Print and write even if the other, or a job, failed.
        try:
            print(results, flush=True)
        finally:
            results.write(arguments.json)
    sys.exit(f"{results.faults} faults" if results.faults else 0)


def kills_of(engine: str, synchronous: bool, kills: int, part: int, parts: int, until: float) -> Tally:
    """Try one share of the kills, in its own folder."""
    with marked() as folder:
        return survive_kills(engine, synchronous, kills, folder, part, parts, until)


def faults_of(engine: str, synchronous: bool, rounds: int) -> Tally:
    """Train agents that fail, in their own folder."""
    with marked() as folder:
        return survive_faults(engine, synchronous, WAYS[engine], rounds, folder / "run")


if __name__ == "__main__":
    main()
