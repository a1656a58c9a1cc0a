"""Graphs and compilers of several threads; the GPU is imitated."""

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Event, RLock
from typing import Any, cast

import pytest
import torch

from popbandits_experiments import cuda_graphs
from popbandits_experiments.cuda_graphs import Replayed, first_use
from popbandits_experiments.paper.procgen import torch_trunk

SECONDS = 300
FRAMES = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
STREAM = cast(torch.cuda.Stream, object())


class Watched:
    """A lock that says when somebody has to wait for it."""

    def __init__(self) -> None:
        self._lock = RLock()
        self.somebody_waits = Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.somebody_waits.set()
            self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class Graph:
    """Stands for a CUDA graph, which runs nothing when it is replayed."""

    def replay(self) -> None:
        pass


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> Watched:
    lock = Watched()
    monkeypatch.setattr(cuda_graphs, "PREPARING", lock)
    monkeypatch.setattr(cuda_graphs, "_USED", set())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, **how: nullcontext())
    return lock


@pytest.fixture
def other_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def augmented(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """The precisions that frames were augmented in, by code that stands for compiled code."""
    calls: list[torch.dtype] = []

    def compiled(name: str, dtype: torch.dtype, frames: torch.Tensor, *draws: torch.Tensor) -> torch.Tensor:
        calls.append(dtype)
        return frames

    monkeypatch.setattr(torch_trunk, "_compile", lambda name: compiled)
    return calls


def capture(procedure: Callable[[], None]) -> None:
    calls: list[Callable[[], None]] = [lambda: None, procedure]
    replayed = Replayed(lambda: calls.pop(0)(), STREAM)
    replayed()  # Runs normally.
    replayed()
    assert not calls


def augment(dtype: torch.dtype = torch.float32, frames: torch.Tensor = FRAMES) -> Any:
    return torch_trunk.augment("crop", dtype, frames, ())


@pytest.mark.parametrize(
    "again",
    [{"dtype": torch.bfloat16}, {"frames": FRAMES[:1]}],
    ids=["precision", "shape"],
)
def test_an_augmentation_is_not_compiled_while_a_graph_is_captured(
    lock: Watched, other_thread: ThreadPoolExecutor, augmented: list[torch.dtype], again: dict[str, Any]
) -> None:
    def waits(**how: Any) -> None:
        lock.somebody_waits.clear()
        before = list(augmented)
        compiling = other_thread.submit(augment, **how)
        assert lock.somebody_waits.wait(SECONDS)
        assert augmented == before
        pending.append(compiling)

    pending: list[Any] = []
    capture(waits)
    pending.pop().result(SECONDS)
    assert len(augmented) == 1
    capture(lambda: other_thread.submit(augment).result(SECONDS))  # It is compiled: nobody waits.
    assert len(augmented) == 2
    capture(lambda: waits(**again))
    pending.pop().result(SECONDS)
    assert len(augmented) == 3


def test_a_graph_is_not_captured_while_code_is_compiled(lock: Watched, other_thread: ThreadPoolExecutor) -> None:
    captured: list[int] = []
    with first_use("code"):
        capturing = other_thread.submit(capture, lambda: captured.append(0))
        assert lock.somebody_waits.wait(SECONDS)
        assert not captured
    capturing.result(SECONDS)
    assert captured == [0]


def test_code_that_could_not_be_compiled_is_not_in_use(lock: Watched, other_thread: ThreadPoolExecutor) -> None:
    def fail() -> None:
        with first_use("code"):
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
    with first_use("code"):
        waiting = other_thread.submit(capture, lambda: None)
        assert lock.somebody_waits.wait(SECONDS)
    waiting.result(SECONDS)


def test_no_garbage_is_collected_during_a_capture(lock: Watched) -> None:
    seen: list[bool] = []
    procedure = Replayed(lambda: seen.append(gc.isenabled()), STREAM)
    for _ in range(3):
        procedure()
    assert seen == [True, False]  # Run, captured, replayed.
    assert gc.isenabled()
