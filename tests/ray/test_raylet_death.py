"""Ray ends the driver with its machine's raylet; its user is told what happened, and the run resumes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from popbandits import PBT, resume, tune
from tests.engines.agents import Walker, space
from tests.ray.conftest import SETTINGS

ROOT = Path(__file__).parents[2]


class Deadly(Walker):
    """Kills the raylet that started its process, in its second round, and waits for the end."""

    def assigned(self, member: int, round_: int) -> None:
        self.round = round_

    def train(self, config: dict[str, Any]) -> float:
        if self.round == 1:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(300)
        return super().train(config)


def drive(directory: str) -> None:
    """Run until Ray ends this process."""
    tune(Deadly, space(), PBT(), population=2, rounds=3, engine="ray", workers=2, directory=directory, progress=False)


def test_the_end_of_this_machine_s_raylet_is_explained_and_the_run_resumes(tmp_path: Path) -> None:
    program = f"from tests.ray.test_raylet_death import drive; drive({str(tmp_path / 'run')!r})"
    environment = {**os.environ, **SETTINGS, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    environment["RAY_ADDRESS"] = "local"  # A cluster of its own: another test's must not lose its raylet.
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280
    )
    assert ended.returncode != 0
    assert "popbandits: the run's process ended while it was connected to Ray" in ended.stderr
    assert "resume it with: popbandits resume run" in ended.stderr
    whole = tune(Walker, space(), PBT(), population=2, rounds=3, directory=tmp_path / "whole", progress=False)
    assert resume(tmp_path / "run", engine="in-process", agent=Walker, progress=False).history == whole.history
