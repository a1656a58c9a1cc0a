"""Runs that tests track, and kill: in a process of its own, at an observation."""

import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from popbandits import History, resume, tune
from popbandits.errors import HistoryError
from popbandits.history import Observation
from popbandits.views.view import View
from tests.engines.agents import Walker, space
from tests.processes import in_a_child

SETTINGS: dict[str, Any] = {"population": 3, "rounds": 4, "progress": False}


class Killer(View):
    """Kills this process when it is told of an observation."""

    def __init__(self, after: int):
        self.left = after

    def told(self, observation: Observation) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


def begin_or_resume(directory: Path, callbacks: Sequence[View], **settings: Any) -> History:
    try:
        return resume(directory, callbacks=callbacks, progress=False).history
    except HistoryError:  # There is no run yet.
        return tune(Walker, space(), directory=directory, callbacks=callbacks, **SETTINGS | settings).history


def _begin_and_die(directory: Path, make: Callable[[], View], after: int, first: bool) -> None:
    killer = Killer(after)
    begin_or_resume(directory, [killer, make()] if first else [make(), killer])


def killed_twice(directory: Path, make: Callable[[], View]) -> History:
    """Track a run that is killed before its tracker hears of an observation, then after; and let it end."""
    for after, first in ((5, True), (3, False)):
        _, status = os.waitpid(in_a_child(partial(_begin_and_die, directory, make, after, first)), 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
    assert len(History.load(directory)) == 8
    return begin_or_resume(directory, [make()])


def curves(mine: Sequence[Observation]) -> dict[str, list[float]]:
    """Return the numbers of a member's observations that a tracker has to show, by name."""
    return {
        "round": [o.round for o in mine],
        "score": [o.score for o in mine],
        "steps": [100.0 * (o.round + 1) for o in mine],
        "metrics/norm": [o.metrics["norm"] for o in mine],
        "hyperparameters/lr": [o.config["lr"] for o in mine],
        "hyperparameters/optimizer": [["sgd", "adam"].index(o.config["optimizer"]) for o in mine],
    }
