"""Runs and commands on a disk that fails at the k-th call of the C library, SQLite's calls included."""

import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from popbandits import History, StopWhen, tune
from popbandits.errors import PopbanditsError
from popbandits_experiments.reliability.attacks.faulty_disk import FAULTS, Fault, calls, fail_from, mend
from popbandits_experiments.reliability.attacks.trials import Outcome, Tally, attempt, command, same_run, snapshot
from popbandits_experiments.reliability.kills import KILLED, begin_or_resume
from popbandits_experiments.reliability.walker import Walker, space

ENGINES: dict[str, dict[str, Any]] = {
    "in-process": {"engine": "in-process", "workers": None, "synchronous": True},
    "threads": {"engine": "threads", "workers": None, "synchronous": True},
    "processes": {"engine": "processes", "workers": 1, "synchronous": True},
}


def runs_on_failing_disks(trials: int, folder: Path, engines: tuple[str, ...] = tuple(ENGINES)) -> Iterator[Tally]:
    """Let the disk fail during runs; each is resumed on a disk that works again."""
    whole = tune(Walker, space(), directory=folder / "whole", **KILLED).directory
    for engine in engines:
        work, tally = partial(begin_or_resume, **ENGINES[engine]), Tally(f"disk fails under a run: {engine}")
        for fault in FAULTS:
            _fail_runs(work, fault, trials, folder, whole, tally)
        yield tally


def _fail_runs(work: Callable[[Path], Any], fault: Fault, trials: int, folder: Path, whole: Path, tally: Tally) -> None:
    directory, scratch = folder / "run", folder / "scratch"
    scratch.mkdir(exist_ok=True)
    same_run(whole, whole)  # SQLite makes files beside a record that is read.
    before = snapshot(folder, {"run", "scratch"})
    for number in numbers(lambda: work(directory), fault, trials, directory, scratch):
        where = f"{fault.name}, call {number}"
        tally.judge(failing(lambda: work(directory), number, fault, directory, scratch), directory, where)
        again = attempt(lambda: work(directory), scratch)
        if tally.check(again.ended == "done", "history changed", f"{where}: resume failed\n{again.text}"):
            tally.check(same_run(directory, whole), "history changed", where)
        tally.check(snapshot(folder, {"run", "scratch"}) == before, "files outside", where)
        shutil.rmtree(directory, ignore_errors=True)


def commands_on_failing_disks(trials: int, folder: Path) -> Iterator[Tally]:
    """Let the disk fail under the commands that read a run, and under one that resumes it."""
    whole = tune(Walker, space(), directory=folder / "whole", **KILLED).directory
    made, place, scratch = folder / "made", folder / "place", folder / "scratch"
    scratch.mkdir()
    halfway = StopWhen(lambda history: len(history) >= 6)
    tune(Walker, space(), directory=made / "run", callbacks=[halfway], **KILLED)
    run = place / "run"
    commands: dict[str, Callable[[], Any]] = {
        "status": partial(command, "status", place),
        "report": partial(command, "report", run, "-o", place / "page.html"),
        "export": partial(command, "export", run, "--csv", "-o", place / "rows.csv"),
        "History.load": lambda: len(History.load(run)),
        "resume": partial(command, "resume", run),
    }
    shutil.copytree(made, place)
    for work in commands.values():
        work()  # Imports what the command needs, once for all trials.
    for name, work in commands.items():
        tally = Tally(f"disk fails under {name}")
        for fault in FAULTS:
            few = -(-trials // 8) if name == "report" else trials  # It draws figures for seconds, and writes one file.
            _fail_commands(name, work, fault, few, made, place, whole, scratch, tally)
        yield tally


def _fail_commands(
    name: str,
    work: Callable[[], Any],
    fault: Fault,
    trials: int,
    made: Path,
    place: Path,
    whole: Path,
    scratch: Path,
    tally: Tally,
) -> None:
    def renew() -> None:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(made, place)

    renew()
    for number in numbers(work, fault, trials, place, scratch, renew):
        where = f"{fault.name}, call {number}"
        before = list(History.load(place / "run"))
        tally.judge(failing(work, number, fault, place, scratch), place, where)
        after = attempt(lambda: history_starts_with(place / "run", before), scratch)  # noqa: B023
        tally.check(after.result is True, "history changed", f"{where}\n{after.text}")
        if name == "resume":
            again = attempt(partial(command, "resume", place / "run"), scratch)
            held = again.ended == "done" and same_run(place / "run", whole)
            tally.check(held, "history changed", f"{where}\n{again.text}")
        renew()


def history_starts_with(directory: Path, before: list[Any]) -> bool:
    return list(History.load(directory))[: len(before)] == before


def failing(work: Callable[[], Any], number: int, fault: Fault, folder: Path, scratch: Path) -> Outcome:
    """Do work on a disk that fails at a call; the disk works again afterwards."""

    def below() -> Any:
        fail_from(number, fault, folder)
        try:
            return work()
        finally:
            mend()

    return attempt(below, scratch)


def numbers(
    work: Callable[[], Any],
    fault: Fault,
    trials: int,
    folder: Path,
    scratch: Path,
    renew: Callable[[], None] | None = None,
) -> list[int]:
    """Draw numbers of calls at which a disk is to fail, one from each of equal stretches of the work's calls."""

    def counted() -> int:
        fail_from(0, fault, folder)
        work()
        return calls()[0]

    outcome = attempt(counted, scratch)
    if outcome.ended != "done":
        raise PopbanditsError(f"without a fault, the work must succeed, got {outcome}")
    (renew or partial(shutil.rmtree, folder))()
    count, chance = int(outcome.result), random.Random(fault.name)
    shares = min(trials, count)
    return [1 + chance.randrange(part * count // shares, (part + 1) * count // shares) for part in range(shares)]
