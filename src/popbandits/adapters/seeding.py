"""Random numbers of an interval, for training code that draws from the global generators."""

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from popbandits.basics.scratch import own_folder

SEEDS_FILE = "agent.json"
_SEED_LIMIT = 2**31  # NumPy's and Gymnasium's seeds, in any version, are below it.


class SeededAgent:
    """Base of agents that seed every interval by its position in the run.

    No generator's state has to be saved: an interval's seed follows from the seed of the first ancestor, the number of
    intervals since, and the member and the round given to `assigned`. So a resumed run draws the same numbers as an
    uninterrupted one, and two members that continue from one checkpoint draw different numbers.

    Python's, NumPy's and PyTorch's global generators are restored afterwards. They belong to a process, so with
    `engine="threads"` intervals disturb each other and are not repeatable.

    Args:
        seed: Seed of the agent.
    """

    uses_global_generators = True
    """Read by `popbandits check`: they are restored after an interval, so nothing else shows it."""

    def __init__(self, seed: int) -> None:
        self._seed, self._intervals, self._next_interval = int(seed), 0, (0, 0)
        self._applied: dict[str, Any] = {}

    def assigned(self, member: int, round: int) -> None:
        """Note which interval of the run comes next."""
        self._next_interval = (member, round)

    def applied(self) -> dict[str, Any]:
        """Return the hyperparameters that were in use when the interval began; a schedule may have changed them."""
        return self._applied

    @contextmanager
    def _new_numbers(self) -> Iterator[int]:
        """Seed the global generators for the next interval, or for building; yield the seed."""
        spawn_key = (self._intervals, *self._next_interval) if self._intervals else ()
        self._intervals += 1
        seed = int(np.random.SeedSequence(self._seed, spawn_key=spawn_key).generate_state(1)[0]) % _SEED_LIMIT
        with seeded(seed):
            yield seed

    def _seeds(self) -> dict[str, int]:
        """Return the seed and the count of intervals, for a checkpoint."""
        return {"seed": self._seed, "intervals": self._intervals}

    def _set_seeds(self, saved: dict[str, Any]) -> None:
        self._seed, self._intervals = saved["seed"], saved["intervals"]

    def _write_seeds(self, directory: Path, **more: Any) -> None:
        """Write the seeds and other plain values to a checkpoint."""
        (directory / SEEDS_FILE).write_text(json.dumps(self._seeds() | more))

    def _read_seeds(self, directory: Path) -> dict[str, Any]:
        """Set the seeds that a checkpoint holds, and return all values of `_write_seeds`."""
        saved: dict[str, Any] = json.loads((directory / SEEDS_FILE).read_text())
        self._set_seeds(saved)
        return saved


class ResumingAgent(SeededAgent):
    """Base of agents whose library resumes from a checkpoint of its own, which they have in a temporary folder.

    Args:
        seed: Seed of the agent.
        progress: Plain values that a checkpoint holds beside the library's own, as they are at the start.
    """

    def __init__(self, seed: int, **progress: Any) -> None:
        super().__init__(seed)
        self._progress = progress
        self._folder, self._remove_folder = own_folder(self)
        self._last = self._folder / "last"

    def save(self, directory: Path) -> None:
        """Write the library's own checkpoint, and the progress."""
        shutil.copytree(self._last, directory, dirs_exist_ok=True)
        self._write_seeds(directory, **self._progress)

    def load(self, directory: Path) -> None:
        """Load a checkpoint; the next interval resumes from it."""
        saved = self._read_seeds(directory)
        self._progress = {name: saved[name] for name in self._progress}
        shutil.rmtree(self._last, ignore_errors=True)
        ours = shutil.ignore_patterns(SEEDS_FILE, "popbandits.*")  # A run adds its manifest.
        shutil.copytree(directory, self._last, ignore=ours)

    def close(self) -> None:
        """Remove the copy of the last checkpoint."""
        self._remove_folder()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed Python's, NumPy's and PyTorch's global generators for a while.

    >>> with seeded(1):
    ...     first = random.random()
    >>> with seeded(1):
    ...     first == random.random()
    True
    """
    before, numpy_before = random.getstate(), np.random.get_state()  # noqa: NPY002 (the generator of users' code)
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(before)
            np.random.set_state(numpy_before)  # noqa: NPY002
