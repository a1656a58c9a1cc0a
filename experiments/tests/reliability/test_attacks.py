"""A sample of the attacks holds, and what does not hold is found."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from popbandits_experiments.reliability.faulty_disk import can_fail
from popbandits_experiments.reliability.trials import Outcome, Tally, table

COMMAND = [sys.executable, "-m", "popbandits_experiments.reliability"]
ON_LINUX = pytest.mark.skipif(not can_fail(), reason="calls can be made to fail on Linux with a C compiler")


@ON_LINUX
@pytest.mark.parametrize(
    ("attacks", "trials", "ended"),
    [  # What a failing disk may do is held by tests/storage/test_disks.py; here, that the harness tells it.
        (["the clock jumps"], 1, 0),
        (["killed: in-process, synchronous"], 6, 6),
        (["killed: processes, asynchronous"], 2, 2),
        ([f"intervals fail: {cell}" for cell in ("in-process, s", "threads, a")], 24, 5),
        (["intervals fail: processes, s"], 8, 2),
        # More calls, and threads, which write by the same loop.
        pytest.param(["killed: in-process, synchronous"], 12, 12, marks=pytest.mark.slow),
        pytest.param(["killed: in-process, asynchronous", "killed: threads, s"], 6, 6, marks=pytest.mark.slow),
        pytest.param(["intervals fail: processes, s"], 24, 5, marks=pytest.mark.slow),
        pytest.param(["disk fails under a run"], 1, 1, marks=pytest.mark.slow),
    ],
)
def test_a_sample_of_an_attack_changes_no_history(attacks: list[str], trials: int, ended: int) -> None:
    ran = subprocess.run([*COMMAND, *attacks, "--trials", str(trials)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [line for line in ran.stdout.splitlines() if any(attack in line for attack in attacks)]
    assert len(rows) >= len(attacks)
    for row in rows:
        _, _, tried, stopped, *broken, _ = row.split("|")
        assert int(tried) >= trials, row
        assert int(stopped) >= ended, row
        assert set(map(int, broken)) == {0}, row


@ON_LINUX
def test_an_interrupted_command_prints_what_it_has(tmp_path: Path) -> None:
    names = ["killed: in-process, synchronous", "killed: processes"]
    command = [*COMMAND, *names, "--trials", "4"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=os.environ | {"TMPDIR": str(tmp_path)}, text=True, **pipes) as harness:
        assert harness.stderr
        assert harness.stderr.readline() == f"{names[0]}\n"
        harness.send_signal(signal.SIGINT)
        try:
            printed, _ = harness.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            harness.kill()  # Leaving the block would wait for it.
            raise
    assert harness.returncode > 0
    assert f"| {names[0]} | 6 | " in printed
    assert not list(tmp_path.iterdir())


def test_every_property_that_does_not_hold_is_counted() -> None:
    tally = Tally("disk")
    run = Path("/runs/first")
    tally.judge(Outcome("said", "could not write to /runs/first/run.sqlite: full; free space, then resume"), run, 1)
    assert tally.broken.total() == 0
    tally.judge(Outcome("said", "could not write to /runs/first/run.sqlite"), run, 2)
    tally.judge(Outcome("said", "could not write; resume"), run, 3)
    tally.judge(Outcome("raw", "OSError"), run, 4)
    tally.judge(Outcome("died"), run, 5)
    tally.judge(Outcome("hang"), run, 6)
    assert table([tally]).endswith("| disk | 6 | 3 | 0 | 2 | 1 | 2 | 0 |")
