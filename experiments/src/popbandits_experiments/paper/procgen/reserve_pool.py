"""Environments in reserve, so that new levels are made beside steps, and not between them.

A new level takes as long as many steps of an environment, and all others of a member would wait for it. So there are a
few environments more than play. One of them takes the place of an environment whose episode ends; that one begins its
next episode beside the next step of the others, and joins the reserve.
"""

from collections import deque

import numpy as np
import numpy.typing as npt

from popbandits.basics.typing import BoolArray, IntArray
from popbandits_experiments.paper.procgen.environments import FRAME, Difficulty, Frames, Levels, Pool

PLAYING_FOR_EACH_IN_RESERVE = 8


class ReservePool:
    """Environments that are stepped together; after an episode's end comes the next one's first frame.

    The arguments are those of a `Pool`; `size` is the number of environments that play at a time.
    """

    def __init__(
        self, game: str, levels: Levels, *, size: int, seed: int, difficulty: Difficulty = "easy", threads: int = 0
    ) -> None:
        self.size = size
        total = size + max(1, size // PLAYING_FOR_EACH_IN_RESERVE)
        self._pool = Pool(game, levels, size=total, seed=seed, difficulty=difficulty, threads=threads)
        self._first = np.zeros((total, *FRAME), np.uint8)
        """First frames of those in reserve, by number."""
        self._number = np.arange(size, dtype=np.int32)
        """Environment at each place of the batch."""
        self._reserve = deque(range(size, total))
        self._ended = np.zeros(0, np.int32)
        """Environments that begin their next episode with the next step."""
        self.level_seeds: IntArray = np.zeros(size, np.int64)
        """Level of the episode that each place's last frame belongs to."""

    def reset(self, frames: Frames) -> None:
        """Start new episodes everywhere; write the first frames to `frames` (size, 3, 64, 64)."""
        self._pool.reset(self._first)
        self._number[:], self._ended = range(self.size), self._ended[:0]
        self._reserve = deque(range(self.size, self._pool.size))
        frames[:] = self._first[: self.size]
        self.level_seeds[:] = self._pool.level_seeds[: self.size]

    def step(self, actions: npt.NDArray[np.int32], frames: Frames) -> tuple[npt.NDArray[np.float32], BoolArray]:
        """Step all environments; return raw rewards and where an episode ended.

        The frames to act on next are written to `frames`. A time-out is an end like any other, as in the original: no
        value is estimated for the time after it.
        """
        beginning = self._ended
        begun = len(beginning)
        # EnvPool begins an episode in the step after the last one's end, whatever the action. First, as it takes long.
        nothing = np.zeros(begun, np.int32)
        self._pool.send(np.concatenate([nothing, actions]), np.concatenate([beginning, self._number]))
        seen, rewards, ended = self._pool.receive()
        frames[:] = seen[begun:]
        self._first[beginning] = seen[:begun]
        self._reserve.extend(beginning.tolist())
        self._seat(np.flatnonzero(ended[begun:]), frames)
        return rewards[begun:], ended[begun:]

    def _seat(self, places: IntArray, frames: Frames) -> None:
        """Give these places of the batch to environments in reserve; if there are too few, wait for new levels."""
        served, rest = places[: len(self._reserve)], places[len(self._reserve) :]
        self._ended = self._number[served]
        self._number[served] = [self._reserve.popleft() for _ in served]
        frames[served] = self._first[self._number[served]]
        if len(rest):
            frames[rest] = self._pool.start(self._number[rest])
        self.level_seeds[places] = self._pool.level_seeds[self._number[places]]

    def close(self) -> None:
        """Stop the threads of the pool."""
        self._pool.close()
