"""The reliability harness keeps what it measured, however its run ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from popbandits_experiments.reliability.syscalls import can_trace
from popbandits_experiments.reliability.tallies import Results, Tally
from tests.processes import until

COMMAND = [sys.executable, "-m", "popbandits_experiments.reliability", "--engines", "in-process", "--rounds", "2"]


@pytest.mark.skipif(not can_trace(), reason="calls can be counted on Linux, on x86-64 and ARM")
def test_an_interrupted_run_prints_and_writes_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [*COMMAND, "--kills", "100000", "--json", str(path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as harness:
        try:
            until(lambda: path.exists() and len(json.loads(path.read_text() or "{}").get("faults", ())) == 2)
        finally:
            harness.send_signal(signal.SIGINT)
        try:
            printed, _ = harness.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            harness.kill()  # Leaving the block would wait for it.
            raise
    assert harness.returncode > 0
    for cell, mode in zip(json.loads(path.read_text())["faults"], ("yes", "no"), strict=True):
        assert cell["kinds"]
        assert sum(cell["kinds"].values()) == cell["trials"]
        assert f"| in-process | {mode} | {cell['trials']} | 0 | 0 | 0 | 0 | 0 |" in printed
    assert "Failures by kind: " in printed


def test_a_file_that_cannot_be_written_costs_no_table(tmp_path: Path) -> None:
    command = [*COMMAND, "--kills", "0", "--json", str(tmp_path / "missing" / "counts.json")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "| in-process | no | " in ran.stdout
    assert "No such file or directory" in ran.stderr


def test_shares_of_the_same_kind_are_summed_and_faults_are_found_in_any() -> None:
    results = Results([Tally("threads", True, 9, 2, 3), Tally("in-process", False), Tally("threads", True, 8, 1, 1)])
    assert str(results).splitlines()[2:4] == [
        "| in-process | no | 0 | 0 | 0 | 0 | 0 | 0 |",
        "| threads | yes | 4 | 0 | 0 | 0 | 0 | 0 |",
    ]
    assert "4 kills; calls at which runs were killed: 0 of 0, 3 of 9." in str(results)
    assert results.faults == 0
    for name in ("lost", "doubled", "hangs", "tracebacks", "left"):
        assert Results(failed=[Tally("threads", True), Tally("threads", True, **{name: 2})]).faults == 2
