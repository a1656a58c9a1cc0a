"""Jobs in processes: their order, their failures, and an end that leaves nobody behind."""

import math
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from functools import partial

import pytest

from popbandits.errors import ArgumentError, PopbanditsError
from popbandits_experiments.paper.parallel import in_processes, worker_count


def test_results_come_in_the_order_of_the_jobs() -> None:
    done: dict[int, float] = {}
    jobs = [partial(math.sqrt, n * n) for n in range(20)]
    assert in_processes(jobs, workers=2, done=done.__setitem__) == list(range(20))
    assert done == {n: n for n in range(20)}


def test_no_jobs_need_no_workers() -> None:
    assert in_processes([], workers=2) == []


def test_workers_have_one_thread_and_their_owner_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    jobs = [partial(os.getenv, name) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")]
    assert in_processes(jobs, workers=1) == ["1", "1"]
    assert os.environ["OPENBLAS_NUM_THREADS"] == "7"
    assert "OMP_NUM_THREADS" not in os.environ


def test_a_failed_job_is_named() -> None:
    with pytest.raises(ValueError, match="invalid literal for int") as caught:
        in_processes([partial(int, "1"), partial(int, "one")], workers=1)
    assert "'one'" in caught.value.__notes__[0]
    assert multiprocessing.active_children() == []


def test_a_worker_that_dies_is_an_error_with_advice() -> None:
    with pytest.raises(PopbanditsError, match="ended before its job was done; if memory ran out, use fewer workers"):
        in_processes([partial(os._exit, 3)], workers=1)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as it usually is: tests that a shell runs in the background would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_workers_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_processes(
            [partial(abs, -1), *[partial(time.sleep, 600)] * 3],
            workers=2,
            done=lambda place, _: os.kill(os.getpid(), signal.SIGINT),
        )
    assert multiprocessing.active_children() == []
    assert time.monotonic() - began < 300


def test_without_a_number_there_is_a_worker_for_each_core() -> None:
    assert 1 <= worker_count() <= (os.cpu_count() or 1)
    with pytest.raises(ArgumentError, match="workers must be at least 1, got 0; leave it out to use every core"):
        worker_count(0)
