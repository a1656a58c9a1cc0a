"""Environments that play chosen levels.

EnvPool offers no way to set the level of an episode: each environment draws its levels by a generator of its own. But
the generator's seed can be set for each environment, a level decides everything else in an episode, and a new
environment costs little beside its level. So here an environment plays one episode, and its seed is one that draws the
wanted level first.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice

import numpy as np
import numpy.typing as npt

from popbandits.basics.typing import BoolArray, IntArray
from popbandits.errors import AgentError
from popbandits_experiments.paper.procgen.environments import FRAME, Difficulty, Frames, Levels, Pool


@dataclass(frozen=True)
class _Made:
    """An environment that has not played: its number in its pool, its level, and its first frame."""

    pool: Pool
    number: int
    level: int
    first: Frames


class LevelPool:
    """Environments that are stepped together, as in a `ReservePool`, with a queue of levels for their next episodes.

    Environments are made as many at a time as play together, each time in a pool of their own, which is closed when all
    of them have played. So an episode's level is up to that many episodes older than the queue. About five pools are
    open at a time if the lengths of episodes are exponential.
    """

    def __init__(self, game: str, levels: Levels, *, size: int, difficulty: Difficulty = "easy", threads: int = 0):
        self._game, self._levels, self._difficulty, self._threads = game, levels, difficulty, threads
        self.size = size
        self.level_seeds: IntArray = np.zeros(size, np.int64)
        """Level of the episode that each environment's last frame belongs to."""
        self._queue = cycle([levels.start])
        self._made: deque[_Made] = deque()
        """Environments that have not played."""
        self._pool: dict[int, Pool] = {}
        self._number = np.zeros(size, np.int32)
        self._places: dict[Pool, IntArray] = {}
        """Places in the batch, by pool."""

    def choose(self, levels: Sequence[int]) -> None:
        """Replace the queue, except for environments that are made; when it ends, it starts over."""
        self._queue = cycle(levels)

    def reset(self, frames: Frames) -> None:
        """Start new episodes everywhere; write the first frames to `frames` (size, 3, 64, 64)."""
        self._seat(np.arange(self.size), frames)

    def step(self, actions: npt.NDArray[np.int32], frames: Frames) -> tuple[npt.NDArray[np.float32], BoolArray]:
        """Step all environments; return raw rewards and where an episode ended; see `ReservePool.step`."""
        rewards, ended = np.zeros(self.size, np.float32), np.zeros(self.size, bool)
        for pool, places in self._places.items():
            pool.send(actions[places], self._number[places])
        for pool, places in self._places.items():
            frames[places], rewards[places], ended[places] = pool.receive()
        if ended.any():
            self._seat(np.flatnonzero(ended), frames)
        return rewards, ended

    def _seat(self, places: IntArray, frames: Frames) -> None:
        """Start the next episodes of the queue at these places of the batch."""
        for place in places.tolist():
            if not self._made:
                self._make()
            made = self._made.popleft()
            self._pool[place], self._number[place], self.level_seeds[place] = made.pool, made.number, made.level
            frames[place] = made.first
        before = self._places
        self._places = {
            pool: np.array([place for place in range(self.size) if self._pool[place] is pool])
            for pool in dict.fromkeys(self._pool.values())
        }
        for pool in before.keys() - self._open():
            pool.close()

    def _make(self) -> None:
        """Make environments for the next levels of the queue, all at a time: one after another would take longer."""
        levels = list(islice(self._queue, self.size))
        seeds = [seeds_by_level(self._levels)[level] for level in levels]
        pool = Pool(
            *(self._game, self._levels),
            size=self.size,
            seed=seeds,
            difficulty=self._difficulty,
            threads=self._threads,
        )
        first = np.zeros((self.size, *FRAME), np.uint8)
        pool.reset(first)
        if (wrong := pool.level_seeds != levels).any():
            pool.close()
            got, wanted = pool.level_seeds[wrong][0], np.array(levels)[wrong][0]
            raise AgentError(f"this EnvPool draws levels by another rule: level {wanted} was chosen, got {got}")
        self._made.extend(_Made(pool, number, level, first[number]) for number, level in enumerate(levels))

    def _open(self) -> set[Pool]:
        return {*self._places, *(made.pool for made in self._made)}

    def close(self) -> None:
        """Stop the threads of all pools."""
        for pool in self._open():
            pool.close()


@cache
def seeds_by_level(levels: Levels) -> dict[int, int]:
    """Map each level to the lowest seed of an environment that draws it first: Mersenne Twister, modulo the count."""
    seeds: dict[int, int] = {}
    seed = 0
    while len(seeds) < levels.count:
        drawn = int(np.random.RandomState(seed).randint(2**32, dtype=np.uint32))
        seeds.setdefault(levels.start + drawn % levels.count, seed)
        seed += 1
    return seeds
