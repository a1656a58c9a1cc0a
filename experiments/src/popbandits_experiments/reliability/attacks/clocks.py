"""Runs and readers under a wall clock that jumps by up to a century; the monotonic clock is left alone."""

import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from popbandits import StopAfter, tune
from popbandits_experiments.reliability.attacks.faulty_disk import jumping_clock
from popbandits_experiments.reliability.attacks.trials import Tally, attempt, command, same_run
from popbandits_experiments.reliability.kills import KILLED
from popbandits_experiments.reliability.walker import Walker, space

REACH = 55 * 365 * 86400
"""Maximum jump in seconds: from 2026 at most back to 1971, since no clock counts from before 1970."""


def runs_under_jumping_clocks(trials: int, folder: Path) -> list[Tally]:
    """Train, look at and resume runs while the clock jumps."""
    whole = tune(Walker, space(), directory=folder / "whole", **KILLED).directory
    scratch, run, chance = folder / "scratch", folder / "run", random.Random(0)
    scratch.mkdir()
    tally = Tally("the clock jumps")
    for number in range(trials):
        every, reach = chance.choice((1, 3, 10)), chance.choice((90, 7200, REACH))
        where = f"trial {number}: every {every} reads by up to {reach} seconds"
        engine = ("in-process", "threads")[number % 2]
        outcome = attempt(partial(_all_of_it, run, engine, every, reach), scratch)
        tally.judge(outcome, run, where)
        tally.check(outcome.ended == "done" and same_run(run, whole), "history changed", where)
        shutil.rmtree(run, ignore_errors=True)
    return [tally]


def _all_of_it(run: Path, engine: Any, every: int, reach: int) -> None:
    with jumping_clock(every, reach):
        # An hour on a clock that jumps by years must not be over at once.
        tune(Walker, space(), directory=run, engine=engine, callbacks=[StopAfter(3600)], **KILLED)
        command("status", run)
        command("export", run, "--json", "-o", run.parent / "scratch" / "rows.json")
        command("resume", run)
