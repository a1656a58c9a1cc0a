"""A sample of kills at file-system calls, and of faults: a run loses nothing."""

import pytest

from popbandits_experiments.reliability.kills import WAYS, marked, survive_faults, survive_kills
from popbandits_experiments.reliability.syscalls import can_trace


@pytest.mark.skipif(not can_trace(), reason="calls can be counted on Linux, on x86-64 and ARM")
@pytest.mark.parametrize(
    ("engine", "synchronous", "kills"),
    [
        ("in-process", True, 6),
        ("processes", False, 2),
        # More calls, and threads, which write by the same loop.
        pytest.param("in-process", True, 12, marks=pytest.mark.slow),
        pytest.param("in-process", False, 6, marks=pytest.mark.slow),
        pytest.param("threads", True, 6, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_killed_at_a_file_system_call_ends_as_if_it_had_not_been(
    engine: str, synchronous: bool, kills: int
) -> None:
    with marked() as folder:
        tally = survive_kills(engine, synchronous, kills, folder)
    assert tally.trials >= kills
    assert tally.faults == 0, tally


@pytest.mark.parametrize("engine", ["in-process", "threads", "processes"])
def test_a_run_in_which_two_intervals_of_five_fail_loses_none(engine: str) -> None:
    with marked() as folder:
        tally = survive_faults(engine, engine != "threads", WAYS[engine], 6, folder / "run", limit=3.0)
    assert tally.trials >= 5
    assert tally.faults == 0, tally
