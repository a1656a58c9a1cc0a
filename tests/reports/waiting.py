"""A run that goes on as far as a test lets it, in a process of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import popbandits
from popbandits import PBT, tune
from popbandits.agent import Outcome
from tests.reports.played import Climber, space

GATE = "POPBANDITS_TEST_GATE"
ROUNDS = 6


class Waiting(Climber):
    """Trains its interval number n once the gate says more than n."""

    rounds = 0

    def train(self, config: dict[str, Any]) -> Outcome:
        while int(Path(os.environ[GATE]).read_text() or 0) <= self.rounds:
            time.sleep(0.02)
        self.rounds += 1
        return super().train(config)

    def save(self, directory: Path) -> None:
        super().save(directory)
        (directory / "rounds").write_text(str(self.rounds))

    def load(self, directory: Path) -> None:
        super().load(directory)
        self.rounds = int((directory / "rounds").read_text())


def begin(directory: str) -> None:
    tune(Waiting, space(), PBT(), population=3, rounds=ROUNDS, directory=directory, progress=False)


class Process:
    """The run in a process, and its gate."""

    def __init__(self, directory: Path, gate: Path):
        self.directory, self.gate = directory, gate
        self.let(0)
        self.start("-c", f"from tests.reports.waiting import begin; begin({str(directory)!r})")

    def start(self, *arguments: str) -> None:
        root = Path(__file__).parents[2]
        paths = os.pathsep.join([str(Path(popbandits.__file__).parents[1]), str(root)])
        environment = {**os.environ, GATE: str(self.gate), "PYTHONPATH": paths}
        self.process = subprocess.Popen(
            [sys.executable, *arguments], env=environment, cwd=root, stdout=subprocess.DEVNULL
        )

    def let(self, rounds: int) -> None:
        """Let every member train so many rounds."""
        new = self.gate.with_suffix(".new")
        new.write_text(str(rounds))
        new.replace(self.gate)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def resume(self) -> None:
        self.start("-m", "popbandits", "resume", str(self.directory))
