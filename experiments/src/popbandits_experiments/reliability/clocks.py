"""Runs and readers under a wall clock that jumps by up to 55 years; the monotonic clock is left alone."""

import random
import shutil
from functools import partial
from pathlib import Path

from popbandits import StopAfter, tune
from popbandits_experiments.reliability.faulty_disk import jump
from popbandits_experiments.reliability.trials import RUN, Tally, attempt, begin_or_resume, command, same_run
from popbandits_experiments.reliability.walker import SPACE, Walker

REACH = 55 * 365 * 86400
"""Maximum jump in seconds: from 2026 at most back to 1971, since no clock counts from before 1970."""


def attack_clock(tally: Tally, trials: int, folder: Path) -> None:
    """Train, look at and resume runs while the clock jumps."""
    whole, run, chance = folder / "whole", folder / "run", random.Random(0)
    begin_or_resume(whole)
    for number in range(trials):
        every, reach = chance.choice((1, 3, 10)), chance.choice((90, 7200, REACH))
        where = f"trial {number}: every {every} reads by up to {reach} seconds"
        jump(every, reach)
        outcome = attempt(partial(_train_and_read, run, ("in-process", "threads")[number % 2]), folder / "scratch")
        jump(0, 0)
        tally.judge(outcome, run, where)
        tally.check(outcome.ended == "done" and same_run(run, whole), "history changed", where)
        shutil.rmtree(run, ignore_errors=True)


def _train_and_read(run: Path, engine: str) -> None:
    # An hour on a clock that jumps by years must not be over at once.
    tune(Walker, SPACE, directory=run, engine=engine, callbacks=[StopAfter(3600)], **RUN)  # type: ignore[arg-type]
    command("status", run)
    command("export", run, "--json", "-o", run.parent / "scratch" / "rows.json")
    command("resume", run)
