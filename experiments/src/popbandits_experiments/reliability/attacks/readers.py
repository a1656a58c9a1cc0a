"""Readers of a run while it is written, and killed: each sees the beginning of the one history there is."""

import os
import random
import shutil
import time
from functools import partial
from pathlib import Path

from popbandits import History, tune
from popbandits.errors import HistoryError
from popbandits_experiments.reliability.attacks.trials import Tally, attempt, command
from popbandits_experiments.reliability.kills import KILLED, begin_or_resume, in_order
from popbandits_experiments.reliability.syscalls import can_trace, in_a_child, killed_at
from popbandits_experiments.reliability.walker import Walker, space

SETTINGS = {"engine": "in-process", "workers": None, "synchronous": True}


def read_while_runs_are_killed(trials: int, folder: Path) -> list[Tally]:
    """Kill a run at random calls, resume it, and read it all the while."""
    tally = Tally("read while a run writes and is killed")
    if not can_trace():
        return [tally]
    whole = in_order(tune(Walker, space(), directory=folder / "whole", **KILLED).history)
    scratch, run, chance = folder / "scratch", folder / "run", random.Random(0)
    scratch.mkdir()
    command("export", folder / "whole", "--csv", "-o", scratch / "rows.csv")  # Imports what readers need.
    for number in range(trials):
        calls = [chance.randint(1, 400) for _ in range(3)]
        writer = in_a_child(partial(_write, run, calls))
        while True:
            outcome = attempt(partial(_read, run, scratch), scratch)
            if outcome.ended != "said" or "holds no run" not in outcome.text:
                tally.judge(outcome, run, f"trial {number}")
            for observation in _seen(run):
                tally.check(observation in whole, "history changed", f"trial {number}: {observation}")
            if _ended(writer):
                break
        tally.check(_seen(run) == whole, "history changed", f"trial {number}: at its end")
        shutil.rmtree(run, ignore_errors=True)
    return [tally]


def _write(run: Path, calls: list[int]) -> None:
    for number in calls:
        killed_at(number, partial(begin_or_resume, run, **SETTINGS))
    begin_or_resume(run, **SETTINGS)


def _read(run: Path, scratch: Path) -> None:
    if not run.exists():
        return time.sleep(0.01)
    command("status", run)
    command("export", run, "--csv", "-o", scratch / "rows.csv")
    return None


def _seen(run: Path) -> list[object]:
    try:
        return list(in_order(History.load(run)))
    except HistoryError as error:
        if "holds no run" in str(error):
            return []
        raise


def _ended(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG)[0] != 0
