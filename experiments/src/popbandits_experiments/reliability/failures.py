"""Hostile agents in runs, whose intervals fail, and in `popbandits check`, which must blame them."""

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from popbandits import PBT, resume, tune
from popbandits.errors import RunError
from popbandits.storage.store import Store
from popbandits.testing import check_agent
from popbandits_experiments.reliability.hostile import IN_CHECKS, Hostile, Way
from popbandits_experiments.reliability.trials import Tally, attempt, observations
from popbandits_experiments.reliability.walker import SPACE


def attack_intervals(tally: Tally, trials: int, folder: Path, engine: str, synchronous: bool) -> None:
    """Train hostile agents for this number of intervals: each is on record once, and every failure with its reason."""
    run, rounds = folder / "run", -(-trials // 4)
    maker = partial(Hostile, engine=engine)
    settings: dict[str, Any] = {"engine": engine, "rounds": rounds, "synchronous": synchronous}
    if engine != "in-process":
        settings["round_timeout"] = 5.0

    def train() -> None:
        start: Callable[[], Any] = partial(tune, maker, SPACE, PBT(), directory=run, progress=False, **settings)
        for _ in range(rounds + 1):
            try:
                if start().done:
                    return
            except RunError:  # All members failed; a user would fix something before resuming.
                pass
            start = partial(resume, run, agent=maker, progress=False)

    outcome = attempt(train, folder / "scratch")
    tally.judge(outcome, None, engine)
    found = observations(run)
    expected = [(member, round_) for member in range(4) for round_ in range(rounds)]
    tally.check([o.key for o in found] == expected, "history changed", [o.key for o in found])
    with Store.open(run, readonly=True) as store:
        told = Counter((event.member, event.round) for event in store.events() if event.member is not None)
    failed = Counter(o.key for o in found if o.failed)
    tally.check(told == failed, "history changed", f"{told} recorded, {failed} failed")
    drafts = [path.name for path in (run / "checkpoints").iterdir() if not path.name.startswith("member-")]
    tally.check(not drafts, "left behind", drafts)
    tally.trials, tally.ended = len(expected), len(failed)


def attack_check(tally: Tally, trials: int, folder: Path) -> None:
    """Check agents in every way; `trials` is not used."""
    (home := folder / "home").mkdir()
    for way in IN_CHECKS:
        outcome = attempt(partial(report_on, home, way), folder / "scratch")
        tally.judge(outcome, None, way)
        reports = outcome.printed.count("make_agent, train, save and load run without errors")
        tally.check(outcome.ended != "done" or reports == 1, "unclear messages", f"{way}: {reports} reports")
        left = list(home.iterdir())
        tally.check(not left, "left behind", f"{way}: {left}")


def report_on(home: Path, way: Way) -> bool:
    """Check an agent as the command does, with temporary files in a folder of its own."""
    tempfile.tempdir = str(home)
    report = check_agent(partial(Hostile, way=way), SPACE)
    os.write(1, f"{report}\n".encode())
    return report.ok
