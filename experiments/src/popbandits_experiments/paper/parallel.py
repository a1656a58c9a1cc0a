"""Many independent jobs over all cores: the same results in the same order with any number of workers."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

from popbandits.engines.spawning import cores, end_with, spawning
from popbandits.errors import ArgumentError, PopbanditsError

T = TypeVar("T")

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}


def worker_count(workers: int | None = None) -> int:
    """Return the number of workers; None means one for each core that this process may use."""
    if workers is None:
        return cores()
    if workers < 1:
        raise ArgumentError(f"workers must be at least 1, got {workers}; leave it out to use every core")
    return workers


def in_processes(
    jobs: Sequence[Callable[[], T]],
    workers: int | None = None,
    done: Callable[[int, T], Any] = lambda index, result: None,
) -> list[T]:
    """Run `jobs` and return their results in order; `done` is called with the index and result of each finished job.

    Workers are processes with one BLAS thread each, even if there is only one: sums are then the same to the last
    digit. They end at once when this process fails, is interrupted or dies.
    """
    count = min(worker_count(workers), len(jobs))
    if not count:
        return []
    context = get_context("spawn")
    listen, line = context.Pipe(duplex=False)
    with listen, line, ProcessPoolExecutor(count, context, end_with, (listen,)) as pool:
        try:
            with spawning(ONE_THREAD):
                indices = {pool.submit(job): index for index, job in enumerate(jobs)}
            for future in as_completed(indices):
                _raise(future.exception(), jobs[indices[future]])
                done(indices[future], future.result())
            return [future.result() for future in indices]
        except BaseException:
            line.close()
            raise


def _raise(error: BaseException | None, job: Callable[[], Any]) -> None:
    if isinstance(error, BrokenProcessPool):
        raise PopbanditsError(
            "a worker process ended before its job was done; if memory ran out, use fewer workers; "
            "in a script, call this below `if __name__ == '__main__':`"
        ) from error
    if error is not None:
        error.add_note(f"in {job}")
        raise error
