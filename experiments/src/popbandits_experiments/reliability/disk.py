"""Runs and commands on a disk that fails, or kills them, at the k-th call of the C library, SQLite's included."""

import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from popbandits import History, StopWhen, tune
from popbandits_experiments.reliability.faulty_disk import FAULTS, Fault, calls, fail_from
from popbandits_experiments.reliability.trials import (
    RUN,
    Outcome,
    Tally,
    attempt,
    begin_or_resume,
    command,
    observations,
    same_run,
)
from popbandits_experiments.reliability.walker import SPACE, Walker

COMMANDS: dict[str, Callable[[Path], Any]] = {
    "status": lambda run: command("status", run.parent),
    "report": lambda run: command("report", run, "-o", run.parent / "page.html"),
    "export": lambda run: command("export", run, "--csv", "-o", run.parent / "rows.csv"),
    "History.load": lambda run: len(History.load(run)),
}


def attack_runs(
    tally: Tally, trials: int, folder: Path, engine: str, synchronous: bool, faults: Iterable[Fault]
) -> None:
    """Let the disk fail during runs, and every other time again while they are resumed; then resume them in peace."""
    whole, run, mode = folder / "whole", folder / "run", {"synchronous": synchronous}
    begin_or_resume(whole, **mode)
    known = observations(whole)
    # One worker where members do not wait for each other: with several, the order of ends is random.
    workers = 1 if engine == "processes" or (engine == "threads" and not synchronous) else None
    work = partial(begin_or_resume, run, engine=engine, workers=workers, **mode)
    for fault in faults:
        for nth, number in enumerate(spread(work, fault, trials, folder, run)):
            shutil.rmtree(run)
            for again in (number, 1 + number // 2)[: 1 + nth % 2]:
                where = f"{fault.name}, call {again}"
                tally.judge(failing(work, again, fault, folder, run), run, where)
                read = attempt(lambda: all(o in known for o in observations(run)), folder / "scratch")
                tally.check(read.result is True, "history changed", f"{where}: on record\n{read.text}")
            last = attempt(partial(begin_or_resume, run, **mode), folder / "scratch")
            held = last.ended == "done" and same_run(run, whole)
            tally.check(held, "history changed", f"{where}: after a resume\n{last.text}")
            beside = {path.name for path in folder.iterdir()} - {"whole", "run", "scratch"}
            tally.check(not beside, "left behind", f"{where}: {beside}")
        shutil.rmtree(run)


def attack_command(tally: Tally, trials: int, folder: Path, name: str) -> None:
    """Let the disk fail under a command that reads a run."""
    place, run = folder / "place", folder / "place" / "run"
    halfway = StopWhen(lambda history: len(history) >= 6)
    tune(Walker, SPACE, directory=run, callbacks=[halfway], **RUN)
    work, before = partial(COMMANDS[name], run), observations(run)
    work()  # Imports what the command needs, once for all trials.
    few = -(-trials // 8) if name == "report" else trials  # It draws figures for seconds, and writes one file.
    for fault in FAULTS:
        for number in spread(work, fault, few, folder, place):
            where = f"{fault.name}, call {number}"
            tally.judge(failing(work, number, fault, folder, place), place, where)
            tally.check(observations(run) == before, "history changed", where)


def failing(work: Callable[[], Any], number: int, fault: Fault, folder: Path, below: Path) -> Outcome:
    """Do work while calls on files below a folder fail, from the one of this number on."""
    fail_from(number, fault, below)
    try:
        return attempt(work, folder / "scratch")
    finally:
        fail_from(0, fault, Path())


def spread(work: Callable[[], Any], fault: Fault, trials: int, folder: Path, below: Path) -> Iterator[int]:
    """Draw numbers of calls at which a disk is to fail, one from each of equal stretches of the work's calls."""
    fail_from(0, fault, below)
    outcome = attempt(work, folder / "scratch")
    if outcome.ended != "done":
        raise RuntimeError(f"without a fault, the work must succeed, got {outcome}")
    count, chance = calls(), random.Random(fault.name)
    shares = min(trials, count)
    for part in range(shares):
        yield 1 + chance.randrange(part * count // shares, (part + 1) * count // shares)
