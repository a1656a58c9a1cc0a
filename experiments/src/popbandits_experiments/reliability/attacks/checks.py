"""`popbandits check` on hostile agents: it ends, blames the agent, and leaves nothing behind."""

import os
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

from popbandits.testing import check_agent
from popbandits_experiments.reliability.attacks.hostile_agents import ACTS, METHODS, RESULTS, SPACE, Agent
from popbandits_experiments.reliability.attacks.trials import Tally, attempt


def check_hostile_agents(trials: int, folder: Path) -> list[Tally]:
    """Check agents that misbehave in every way and in every method; `trials` is not used."""
    acts = [{"act": act, "method": method} for act in ACTS for method in METHODS]
    tally, scratch, home = Tally("check on a hostile agent"), folder / "scratch", folder / "home"
    for each in (scratch, home):
        each.mkdir()
    for ways in [*acts, *({"result": result} for result in RESULTS)]:
        outcome = attempt(partial(report_on, home, ways), scratch, 60)
        tally.judge(outcome, None, ways)
        reports = outcome.printed.count("make_agent, train, save and load run without errors")
        tally.check(outcome.ended != "done" or reports == 1, "unclear messages", f"{ways}: {reports} reports")
        left = list(home.iterdir())
        tally.check(not left, "files outside", f"{ways}: {left}")
    return [tally, *interrupt_checks(folder)]


def report_on(home: Path, ways: dict[str, Any]) -> bool:
    """Check an agent as the command does, with temporary files in a folder of its own."""
    tempfile.tempdir = str(home)
    report = check_agent(partial(Agent, **ways), SPACE)
    os.write(1, f"{report}\n".encode())
    return report.ok


def interrupt_checks(folder: Path) -> list[Tally]:
    """Press Ctrl-C while an agent hangs in each of its methods."""
    tally = Tally("Ctrl-C during the check of an agent that hangs")
    for method in METHODS:
        outcome = attempt(partial(_hang, method), folder / "scratch", 2.0, interrupts=1)
        tally.check(outcome.result == "stopped", "hangs", f"{method}: {outcome}")
        tally.trials += 1
    return [tally]


def _hang(method: str) -> str:
    ACTS["hang"] = lambda folder: threading.Event().wait()
    try:
        check_agent(partial(Agent, act="hang", method=method), SPACE)
    except KeyboardInterrupt:
        return "stopped"
    return "ended"
