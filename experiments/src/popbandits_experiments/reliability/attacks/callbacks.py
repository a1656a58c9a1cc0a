"""Callbacks that never return: Ctrl-C, twice, ends the run, and a resume continues it."""

import shutil
import threading
from functools import partial
from pathlib import Path
from typing import Any

from popbandits import View, resume, tune
from popbandits_experiments.reliability.attacks.trials import Tally, attempt, same_run
from popbandits_experiments.reliability.kills import KILLED
from popbandits_experiments.reliability.walker import Walker, space

METHODS = ("opened", "asked", "told", "happened", "stop", "closed")


class Hanging(View):
    """Never returns from one of its methods, nor from any call after that."""

    def __init__(self, method: str):
        self.hangs = False
        for name in METHODS:
            setattr(self, name, partial(self._do, name == method))

    def _do(self, begin: bool, *news: Any) -> None:
        self.hangs = self.hangs or begin
        if self.hangs:
            threading.Event().wait()


def runs_with_hanging_callbacks(trials: int, folder: Path) -> list[Tally]:
    """Let a callback hang in each of its methods, on two engines; `trials` is not used."""
    whole = tune(Walker, space(), directory=folder / "whole", **KILLED).directory
    scratch, run, tally = folder / "scratch", folder / "run", Tally("a callback hangs, and Ctrl-C twice")
    scratch.mkdir()
    for engine in ("in-process", "threads"):
        for method in METHODS:
            outcome = attempt(partial(_train, run, engine, method), scratch, 3.0, interrupts=2)
            tally.trials += 1
            tally.check(outcome.ended != "hang", "hangs", f"{engine}, {method}")
            tally.check(outcome.result == "stopped", "raw errors", f"{engine}, {method}: {outcome}")
            again = attempt(partial(_resume, run), scratch)
            held = again.ended == "done" and same_run(run, whole)
            tally.check(held, "history changed", f"{engine}, {method}: {again}")
            shutil.rmtree(run, ignore_errors=True)
    return [tally]


def _train(run: Path, engine: Any, method: str) -> str:
    try:
        tune(Walker, space(), directory=run, engine=engine, callbacks=[Hanging(method)], **KILLED)
    except KeyboardInterrupt:
        return "stopped"
    return "ended"


def _resume(run: Path) -> None:
    resume(run, progress=False, engine="in-process")
