"""A sample of the attacks holds, and what does not hold is found."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from popbandits_experiments.reliability.attacks.faulty_disk import can_fail
from popbandits_experiments.reliability.attacks.trials import Outcome, Tally, table


@pytest.mark.skipif(not can_fail(), reason="calls can be made to fail on Linux with a C compiler")
@pytest.mark.parametrize(
    ("attack", "trials"),
    [  # What a failing disk may do is held by tests/storage/test_disks.py; here, that the harness tells it.
        ("clocks", [1]),
        pytest.param("disk", [5, 5, 5], marks=pytest.mark.slow),
    ],
)
def test_a_sample_of_an_attack_changes_no_history(attack: str, trials: list[int], tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    command = [
        sys.executable,
        "-m",
        "popbandits_experiments.reliability.attacks",
        attack,
        "--trials",
        "1",
        "--json",
        str(path),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert [tally["trials"] for tally in json.loads(path.read_text())] == trials


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
