"""The games: pools of EnvPool environments that behave like the original package, and statistics of their rewards.

EnvPool 1.2's games match the original step by step except at the end of an episode: `step` returns the last frame and
needs one more call, whose action it ignores, to start the next episode. `ReservePool` restores the original's
convention.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import envpool
import numpy as np
import numpy.typing as npt

from popbandits.basics.typing import BoolArray, FloatArray, IntArray
from popbandits.errors import ArgumentError

GAMES = (
    "bigfish",
    "bossfight",
    "caveflyer",
    "chaser",
    "climber",
    "coinrun",
    "dodgeball",
    "fruitbot",
    "heist",
    "jumper",
    "leaper",
    "maze",
    "miner",
    "ninja",
    "plunder",
    "starpilot",
)
PAPER_GAMES = ("bigfish", "caveflyer", "coinrun", "fruitbot", "jumper", "leaper", "starpilot")
ACTIONS = 15
FRAME = (3, 64, 64)

SENT = ("env_id", "players.env_id", "action")
STATE = ("obs", "reward", "done", "trunc", "info:env_id", "info:level_seed")
"""What a pool sends and what it reads in a step, by EnvPool's names."""
NOBODY = -1
"""Pool of a place in a batch that no environment has."""

Difficulty = Literal["easy", "hard"]
Frames = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Levels:
    """The levels `start`, …, `start + count - 1`, from which every episode draws one; a count of 0 means all levels."""

    start: int
    count: int


# The published protocol trains on levels 0 to 199 and tests on all 2^31. The validation levels lie far above the
# training levels, and a test episode draws one of them with a probability of 5e-7.
LEVELS: Mapping[str, Levels] = {
    "train": Levels(0, 200),
    "validation": Levels(1_000_000, 1_000),
    "test": Levels(0, 0),
}


def require_game(game: str) -> None:
    """Raise ArgumentError if it is not a Procgen game."""
    if game not in GAMES:
        raise ArgumentError(f"game must be one of Procgen's, got {game!r}; choose from {', '.join(GAMES)}")


class Pool:
    """Several environments of one game, stepped together, all of them or some.

    With `threads` of 0, EnvPool chooses the number. The state of a pool cannot be saved, but the same seed, levels and
    actions give the same episodes. Instead of one seed there can be one for each environment.
    """

    def __init__(
        self,
        game: str,
        levels: Levels,
        *,
        size: int,
        seed: int | Sequence[int],
        difficulty: Difficulty = "easy",
        threads: int = 0,
    ) -> None:
        require_game(game)
        self.envpool: Any = envpool.make_gymnasium(
            f"{game.capitalize()}{difficulty.capitalize()}-v0",
            num_envs=size,
            seed=seed,
            num_levels=levels.count,
            start_level=levels.start,
            num_threads=threads,
        )
        self.size = size
        self.level_seeds: IntArray = np.zeros(size, np.int64)
        """Level of the episode that each environment's last frame belongs to."""
        self._all = np.arange(size, dtype=np.int32)
        assert tuple(self.envpool._action_keys) == SENT, "this EnvPool takes other values for a step"
        names = list(self.envpool._state_keys)
        self._state = [names.index(name) for name in STATE]

    def reset(self, frames: Frames) -> None:
        """Start new episodes everywhere; write the first frames to `frames` (size, 3, 64, 64)."""
        first, info = self.envpool.reset()
        frames[:] = first
        self.level_seeds = info["level_seed"].astype(np.int64)

    def send(self, actions: npt.NDArray[np.int32], ids: npt.NDArray[np.int32] | None = None) -> None:
        """Start a step of all environments, or of those with these numbers while the others wait."""
        numbers = self._all if ids is None else ids
        # Not its public `send` and `recv`, which take 0.03 to 0.1 ms more, while the environments' threads have nothing
        # to do: measured on two cores, where a step of 64 environments takes 1.7 ms.
        self.envpool._send([numbers, numbers, actions])

    def receive(self) -> tuple[Frames, npt.NDArray[np.float32], BoolArray]:
        """Return frames, raw rewards and ends of the step that `send` started; an ended episode has no next one."""
        state = self.envpool._recv()
        frames, rewards, ended, truncated, numbers, level_seeds = (state[at] for at in self._state)
        self.level_seeds[numbers] = level_seeds
        return frames, rewards, ended | truncated

    def start(self, ids: npt.NDArray[np.int32]) -> Frames:
        """Start new episodes in the environments with these numbers; return their first frames."""
        frames, info = self.envpool.reset(ids)
        self.level_seeds[ids] = info["level_seed"]
        first: Frames = frames
        return first

    def close(self) -> None:
        """Stop the threads of the pool."""
        self.envpool.close()


class EpisodeQueue:
    """Environments of several pools that play one episode each, as many at a time as there are frames in a batch.

    An environment whose episode ends gives its place in the batch to the next one in the queue, where the pools take
    turns. Only environments that still play are stepped, those of all pools at the same time.
    """

    def __init__(self, pools: Sequence[Pool], frames: Frames) -> None:
        """Start all episodes; write the frames to act on to `frames` (places, 3, 64, 64), now and after each step."""
        self._pools, self._frames = pools, frames
        self._first = [np.zeros((pool.size, *FRAME), np.uint8) for pool in pools]
        for pool, first in zip(pools, self._first, strict=True):
            pool.reset(first)
        self.returns: list[FloatArray] = [np.zeros(pool.size) for pool in pools]
        """Raw returns of the environments of each pool, so far."""
        order = sorted((number, pool) for pool, each in enumerate(pools) for number in range(each.size))
        self._waiting = iter(order)
        self._pool = np.full(len(frames), NOBODY)
        self._number = np.zeros(len(frames), np.int32)
        for place in range(len(frames)):
            self._seat(place)

    @property
    def playing(self) -> bool:
        """True until all episodes have ended."""
        return bool((self._pool != NOBODY).any())

    def step(self, actions: npt.NDArray[np.int32]) -> None:
        """Do the actions of a batch; those of places without an environment are ignored."""
        stepped = [np.flatnonzero(self._pool == pool) for pool in range(len(self._pools))]
        stepping = [(pool, places) for pool, places in enumerate(stepped) if len(places)]
        for pool, places in stepping:
            self._pools[pool].send(actions[places], self._number[places])
        for pool, places in stepping:
            self._frames[places], rewards, ended = self._pools[pool].receive()
            self.returns[pool][self._number[places]] += rewards
            for place in places[ended]:
                self._seat(place)

    def _seat(self, place: int) -> None:
        """Give a place of the batch to the next environment of the queue."""
        self._number[place], self._pool[place] = next(self._waiting, (0, NOBODY))
        if self._pool[place] != NOBODY:
            self._frames[place] = self._first[self._pool[place]][self._number[place]]


class RewardNormaliser:
    """Divide rewards by the running standard deviation of the discounted return, and clip them at ±10.

    The return's discount is 0.99, whatever the agent's: the published runs used OpenAI baselines' VecNormalize with its
    default.
    """

    DISCOUNT = 0.99
    BOUND = 10.0

    def __init__(self, size: int) -> None:
        self.mean, self.variance, self.count = 0.0, 1.0, 1e-4
        self._returns: FloatArray = np.zeros(size)

    def begin(self) -> None:
        """Forget unfinished episodes, since new environments start; keep the statistics."""
        self._returns[:] = 0

    def __call__(self, rewards: FloatArray, ended: BoolArray) -> FloatArray:
        """Scale the rewards of a rollout (steps, environments); each step updates the statistics first."""
        returns = np.empty_like(rewards)
        for step in range(len(rewards)):
            returns[step] = self._returns * self.DISCOUNT + rewards[step]
            self._returns = np.where(ended[step], 0, returns[step])
        variances = np.empty(len(rewards))
        steps = zip(returns.mean(1).tolist(), returns.var(1).tolist(), strict=True)
        for step, (mean, variance) in enumerate(steps):
            self._update(mean, variance, rewards.shape[1])
            variances[step] = self.variance
        scaled: FloatArray = np.clip(rewards / np.sqrt(variances + 1e-8)[:, None], -self.BOUND, self.BOUND)
        return scaled

    def _update(self, mean: float, variance: float, count: int) -> None:
        """Update mean and variance by Chan's parallel algorithm."""
        total = self.count + count
        apart = mean - self.mean
        squares = self.variance * self.count + variance * count + apart**2 * self.count * count / total
        self.mean, self.variance, self.count = self.mean + apart * count / total, squares / total, total


class EpisodeReturns:
    """Raw returns of the last 100 finished episodes, and of the unfinished ones."""

    KEPT = 100

    def __init__(self, size: int) -> None:
        self.last: list[float] = []
        self.ended = 0
        self._running: FloatArray = np.zeros(size)

    def begin(self) -> None:
        """Forget unfinished episodes, since new environments start."""
        self._running[:] = 0

    def __call__(self, rewards: FloatArray, ended: BoolArray) -> None:
        """Add a rollout (steps, environments)."""
        for step in range(len(rewards)):
            self._running += rewards[step]
            if ended[step].any():
                self.last = [*self.last, *self._running[ended[step]].tolist()][-self.KEPT :]
                self.ended += int(ended[step].sum())
                self._running[ended[step]] = 0
