"""Kills in the middle of training: a run of an adapter ends with the history of one that was left in peace."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from popbandits import History
from popbandits.basics.scratch import YOUNG
from tests.adapters.killed import begin_or_resume

pytestmark = pytest.mark.integration
KILLS = [("ppo", 90), ("dqn", 170), ("lightning", 18), ("rsl_rl", 70), ("skrl", 70), ("rl_games", 70), ("trl", 14)]


def play(name: str, directory: Path, kill_at: int | None) -> int:
    """Begin or resume a run in a process of its own; its return code."""
    environment = os.environ | ({} if kill_at is None else {"KILL_AT_STEP": str(kill_at)})
    environment["TMPDIR"] = str(directory.parent)
    command = [sys.executable, "-m", "tests.adapters.killed", name, str(directory)]
    root = Path(__file__).parents[2]
    environment["PYTHONPATH"] = os.pathsep.join([str(root / "src"), str(root)])
    return subprocess.run(command, cwd=root, env=environment, check=False).returncode


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rl_games uses what PyTorch will remove.
@pytest.mark.parametrize(("name", "steps"), KILLS)
def test_a_run_that_is_killed_while_it_trains_resumes_with_nothing_lost(name: str, steps: int, tmp_path: Path) -> None:
    known = []
    for _ in range(2):  # The second kill hits a run that was resumed.
        assert play(name, tmp_path / "killed", kill_at=steps) == -signal.SIGKILL
        known.append(len(History.load(tmp_path / "killed")))
    assert 0 < known[0] < known[1] < 12
    left = list(tmp_path.glob("popbandits-*"))
    assert bool(left) == (name in ("lightning", "rl_games", "trl"))
    for folder in left:
        os.utime(folder, (time.time() - 2 * YOUNG,) * 2)
    assert play(name, tmp_path / "killed", kill_at=None) == 0
    assert list(tmp_path.glob("popbandits-*")) == []
    whole = begin_or_resume(name, tmp_path / "whole")
    assert len(whole) == 12
    assert list(History.load(tmp_path / "killed")) == list(whole)
