"""PPO, DrAC and UCB-DrAC agents on Procgen.

    tune(partial(DrAC, settings=Settings("bigfish")), space, …)

An interval starts with new environments, since the state of a pool cannot be saved. Their seed, and all other
randomness, depends on a seed in the checkpoint, the steps trained, the hyperparameters and the member. So a member that
loads its checkpoint continues exactly as without a break, and a member that copies another's weights does not repeat
the other's episodes.
"""

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, get_args
from warnings import warn

import numpy as np
import torch
from torch import Generator

from popbandits.agent import Outcome
from popbandits.basics.rules import one_of, whole
from popbandits.basics.typing import BoolArray, FloatArray
from popbandits.errors import AgentError, ArgumentError
from popbandits.rl.threads import use_one_thread
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS
from popbandits_experiments.paper.procgen.environments import (
    LEVELS,
    Difficulty,
    EpisodeQueue,
    EpisodeReturns,
    Pool,
    RewardNormaliser,
    require_game,
)
from popbandits_experiments.paper.procgen.learner import Learner, Network, PlainTrunk, Sizes
from popbandits_experiments.paper.procgen.level_pool import LevelPool
from popbandits_experiments.paper.procgen.level_replay import LevelReplay
from popbandits_experiments.paper.procgen.pool_process import PoolProcess
from popbandits_experiments.paper.procgen.reserve_pool import ReservePool
from popbandits_experiments.paper.procgen.ucb import UCB

Precision = Literal["float32", "bfloat16"]
ScoreOn = Literal["training", "validation"]
LevelChoice = Literal["uniform", "replay", "shuffled"]

REPLAY_HYPERPARAMETERS = ("temperature", "staleness")
"""More hyperparameters of an agent that replays levels."""
LEVELS_AHEAD = 1_024
"""Levels that are drawn for a rollout; if more episodes begin in it, they are used again."""


@dataclass(frozen=True)
class Settings:
    """Settings shared by all members and rounds."""

    game: str
    difficulty: Difficulty = "easy"
    interval: int = 500_000
    """Environment steps of an interval: `train` adds whole rollouts until the next multiple is reached."""
    sizes: Sizes = field(default_factory=Sizes)
    device: str = "cpu"
    precision: Precision = "float32"
    """Precision of the convolutions; weights and optimizer are always float32. bfloat16 needs a GPU."""
    threads: int = 0
    """Threads that step one member's environments; 0 lets EnvPool choose."""
    score_on: ScoreOn = "training"
    """Episodes whose mean raw return is the score: the last 100 of training, or those on the validation levels."""
    episodes: int = 100
    """Episodes of an evaluation, on each set of levels."""
    levels: LevelChoice = "uniform"
    """How training levels are drawn: uniformly; by prioritised replay, with two more hyperparameters; or, a control, by
    replay with shuffled scores."""

    def __post_init__(self) -> None:
        require_game(self.game)
        choices = {"difficulty": Difficulty, "precision": Precision, "score_on": ScoreOn, "levels": LevelChoice}
        for name, kind in choices.items():
            one_of(*get_args(kind)).check(name, getattr(self, name))
        for name, least in (("threads", 0), ("episodes", 1), ("interval", 1)):
            whole(least).check(name, getattr(self, name))
        if self.interval < self.sizes.rollout:
            raise ArgumentError(
                f"interval must be at least a rollout, {self.sizes.environments} environments × {self.sizes.steps} "
                f"steps = {self.sizes.rollout}, got {self.interval}; use a longer interval or smaller rollouts"
            )
        if self.precision == "bfloat16" and not self.device.startswith("cuda"):
            raise ArgumentError(
                f"precision 'bfloat16' needs a GPU, got device {self.device!r}; "
                "set precision='float32', or device='cuda'"
            )
        if self.sizes.rollout % self.sizes.minibatches:
            raise ArgumentError(
                f"minibatches must divide the {self.sizes.rollout} steps of a rollout, "
                f"got {self.sizes.minibatches}; change environments, steps or minibatches"
            )


def threads_a_member(members: int, device: str) -> int:
    """Return how many threads step the environments of each member, if this many members share this machine.

    With a GPU there can be two for each core: the threads of a member rest while it acts or learns. One member alone
    has no use for more than there are cores.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, (2 if device.startswith("cuda") else 1) * cores // members))


class PPO:
    """PPO, with hyperparameters lr, clip and entropy."""

    HYPERPARAMETERS: tuple[str, ...] = ("lr", "clip", "entropy")
    REGULARISED = False

    def __init__(self, seed: int, settings: Settings) -> None:
        self._seed, self._settings = seed, settings
        self._device = torch.device(settings.device)
        self._use_one_thread()
        self.learner = Learner(seed, settings.sizes, _network(settings), self._device, regularised=self.REGULARISED)
        self._process = PoolProcess(self.learner.mailbox) if _steps_elsewhere(self._device) else None
        self._normaliser = RewardNormaliser(settings.sizes.environments)
        self._episodes = EpisodeReturns(settings.sizes.environments)
        replayed = LevelReplay(LEVELS["train"].count, settings.sizes.environments, settings.levels == "shuffled")
        self._replay = None if settings.levels == "uniform" else replayed
        self._steps = 0
        self._member = 0
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Seconds of the last interval by activity."""

    def assigned(self, member: int, round_: int) -> None:
        """Set the member that the next interval belongs to."""
        self._member = member

    def train(self, config: dict[str, Any], /) -> Outcome:
        """Train for an interval; the score is a mean raw return, NaN if no episode ended or the weights diverged."""
        self._use_one_thread()
        self._apply(config)
        before, self.seconds = self._steps, defaultdict(float)
        goal = (before // self._settings.interval + 1) * self._settings.interval
        randomness = np.random.default_rng([self._seed, self._steps, self._member, _digest(config)])
        generator = Generator(self._device).manual_seed(int(randomness.integers(2**62)))
        sizes = self._settings.sizes
        seed = int(randomness.integers(2**31))
        draws = np.random.default_rng(seed)
        with self._training_pool(seed, self._draw_levels(draws)) as pool:
            self._normaliser.begin()
            self._episodes.begin()
            if self._replay is not None:
                self._replay.begin()
            while self._steps < goal:
                mean_return = self._rollout(pool, generator, draws)
                augmentation = self._augmentation(mean_return)
                waiting = perf_counter()
                with self.learner.turn:
                    self.seconds["waiting"] += perf_counter() - waiting
                    with self._timed("update"):
                        self.learner.update(augmentation, generator)
                self._steps += sizes.rollout
        metrics: dict[str, Any] = {"training_return": _mean(self._episodes.last), "episodes": self._episodes.ended}
        if self._settings.score_on == "validation":
            returns = self.evaluate(["validation"], seed=int(randomness.integers(2**31)))
            metrics["validation_return"] = _mean(returns["validation"])
        score = metrics[f"{self._settings.score_on}_return"] if self.learner.is_finite() else float("nan")
        return Outcome(score, self._steps - before, metrics)

    def _draw_levels(self, draws: np.random.Generator) -> list[int]:
        """Draw levels for the next episodes; none if the environments do."""
        if self._replay is None:
            return []
        return [LEVELS["train"].start + int(level) for level in self._replay.draw(LEVELS_AHEAD, draws)]

    def _rollout(
        self, pool: ReservePool | LevelPool | PoolProcess, generator: Generator, draws: np.random.Generator
    ) -> float:
        """Act for a rollout and return its mean λ-return; choose the next levels."""
        self.learner.begin(generator)
        rewards, ended = self._play_elsewhere(pool) if isinstance(pool, PoolProcess) else self._play(pool)
        self.learner.act()  # For the value of what comes next.
        self._episodes(rewards, ended)
        mean_return = self.learner.look_back(self._normaliser(rewards, ended), ended)
        if self._replay is not None and not isinstance(pool, ReservePool):
            self._replay.add(self.learner.mailbox.levels - LEVELS["train"].start, ended, self.learner.advantages)
            pool.choose(self._draw_levels(draws))
        return mean_return

    def _play(self, pool: ReservePool | LevelPool) -> tuple[FloatArray, BoolArray]:
        """Return rewards and ends of a rollout (steps, environments)."""
        sizes = self._settings.sizes
        rewards = np.zeros((sizes.steps, sizes.environments))
        ended = np.zeros((sizes.steps, sizes.environments), bool)
        for step in range(sizes.steps):
            with self._timed("acting"):
                actions = self.learner.act()
            with self._timed("stepping"):
                self.learner.mailbox.levels[step] = pool.level_seeds
                rewards[step], ended[step] = pool.step(actions, self.learner.frames)
        return rewards, ended

    def _play_elsewhere(self, process: PoolProcess) -> tuple[FloatArray, BoolArray]:
        """Return the same, with environments in another process and steps launched ahead of their frames."""
        learner, mailbox = self.learner, self.learner.mailbox
        every, launched = max(1, learner.ahead // 2), 0
        process.play(every)
        try:
            for stepped in range(0, mailbox.steps, every):
                while launched < min(stepped + learner.ahead, mailbox.steps):
                    learner.start_acting()
                    launched += 1
                process.wait()
        except BaseException:
            with suppress(AgentError):  # The first error counts.
                process.stop()
            raise
        acting, stepping = mailbox.seconds
        self.seconds["acting"] += acting
        self.seconds["stepping"] += stepping
        return mailbox.rewards.astype(np.float64), mailbox.ended

    def evaluate(self, levels: Sequence[str], *, seed: int, episodes: int | None = None) -> dict[str, list[float]]:
        """Return raw returns of episodes on each set of levels, with actions drawn from the policy; nothing is learnt.

        Every episode has an environment of its own and is played to the end: taking the first to end would favour short
        episodes. The environments of all sets share the batch that acts, since towards the end most of it is free.
        """
        self._use_one_thread()
        size = self._settings.episodes if episodes is None else episodes
        threads = -(-self._settings.threads // len(levels))
        seeds = np.random.SeedSequence(seed).generate_state(len(levels)) >> 1  # EnvPool: below 2^31.
        generator = Generator(self._device).manual_seed(seed)
        with self._timed("evaluation"), ExitStack() as stack:
            pools = [
                stack.enter_context(self._pool(name, int(own), size, threads))
                for name, own in zip(levels, seeds, strict=True)
            ]
            queue = EpisodeQueue(pools, self.learner.frames)
            step = 0
            while queue.playing:
                if step % self._settings.sizes.steps == 0:
                    self.learner.begin(generator)
                queue.step(self.learner.act())
                step += 1
        return {name: returns.tolist() for name, returns in zip(levels, queue.returns, strict=True)}

    def _use_one_thread(self) -> None:
        """Make results independent of the thread they are computed in."""
        if self._device.type == "cpu":
            use_one_thread()

    @contextmanager
    def _training_pool(self, seed: int, levels: list[int]) -> Iterator[ReservePool | LevelPool | PoolProcess]:
        """Start new environments; on a GPU, in a process that lives as long as the agent."""
        settings, size = self._settings, self._settings.sizes.environments
        game, difficulty, threads = settings.game, settings.difficulty, settings.threads
        if self._process is not None:
            self._process.open(game, LEVELS["train"], seed=seed, difficulty=difficulty, threads=threads, chosen=levels)
            yield self._process
        elif levels:
            with closing(LevelPool(game, LEVELS["train"], size=size, difficulty=difficulty, threads=threads)) as chosen:
                chosen.choose(levels)
                chosen.reset(self.learner.frames)
                yield chosen
        else:
            made = ReservePool(game, LEVELS["train"], size=size, seed=seed, difficulty=difficulty, threads=threads)
            with closing(made) as pool:
                pool.reset(self.learner.frames)
                yield pool

    @contextmanager
    def _pool(self, levels: str, seed: int, size: int, threads: int) -> Iterator[Pool]:
        game, difficulty = self._settings.game, self._settings.difficulty
        pool = Pool(game, LEVELS[levels], size=size, seed=seed, difficulty=difficulty, threads=threads)
        try:
            yield pool
        finally:
            pool.close()

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self.seconds[part] += perf_counter() - start

    def _apply(self, config: Mapping[str, Any]) -> None:
        names = self.HYPERPARAMETERS + (REPLAY_HYPERPARAMETERS if self._replay is not None else ())
        if set(config) != set(names):
            raise ArgumentError(
                f"{type(self).__name__} takes the hyperparameters {', '.join(names)}, "
                f"got {', '.join(config) or 'none'}; define exactly these in the space"
            )
        if self._replay is not None:
            self._replay.temperature, self._replay.staleness = (config[name] for name in REPLAY_HYPERPARAMETERS)
        self.learner.set(**{name: config[name] for name in self.HYPERPARAMETERS if name != "augmentation"})

    def _augmentation(self, mean_return: float) -> str | None:
        return None

    def applied(self) -> dict[str, Any]:
        """Return the hyperparameters in use, read back from the device."""
        replay = {name: getattr(self._replay, name) for name in REPLAY_HYPERPARAMETERS if self._replay is not None}
        return self.learner.hyperparameters() | replay

    def save(self, directory: Path, /) -> None:
        """Write weights, optimizer, reward statistics, returns, scores of levels, and the source of randomness."""
        torch.save(self.learner.state(), directory / "learner.pt")
        (directory / "agent.json").write_text(json.dumps(self._state()))

    def load(self, directory: Path, /) -> None:
        """Restore a saved agent, except for the hyperparameters."""
        self.learner.restore(torch.load(directory / "learner.pt", map_location="cpu", weights_only=True))
        self._restore(json.loads((directory / "agent.json").read_text()))

    def close(self) -> None:
        """End the process of the environments, and the learner."""
        if self._process is not None:
            self._process.close()
        self.learner.close()

    def _state(self) -> dict[str, Any]:
        normaliser = self._normaliser
        replay = {} if self._replay is None else {"levels": self._replay.state()}
        return replay | {
            "seed": self._seed,
            "steps": self._steps,
            "reward_statistics": [normaliser.mean, normaliser.variance, normaliser.count],
            "returns": self._episodes.last,
            "episodes": self._episodes.ended,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._seed, self._steps = state["seed"], state["steps"]
        self._normaliser.mean, self._normaliser.variance, self._normaliser.count = state["reward_statistics"]
        self._episodes.last, self._episodes.ended = list(state["returns"]), state["episodes"]
        if self._replay is not None:
            self._replay.restore(state["levels"])


class DrAC(PPO):
    """PPO regularised by an augmentation, with two more hyperparameters: augmentation, and its weight alpha."""

    HYPERPARAMETERS = ("lr", "clip", "entropy", "alpha", "augmentation")
    REGULARISED = True

    def __init__(self, seed: int, settings: Settings) -> None:
        super().__init__(seed, settings)
        self._chosen = ""

    def _apply(self, config: Mapping[str, Any]) -> None:
        super()._apply(config)
        self._chosen = config["augmentation"]
        if self._chosen not in AUGMENTATIONS:
            raise ArgumentError(f"augmentation must be one of {', '.join(AUGMENTATIONS)}, got {self._chosen!r}")

    def _augmentation(self, mean_return: float) -> str | None:
        return self._chosen

    def applied(self) -> dict[str, Any]:
        """Return the hyperparameters in use, read back from where they are used."""
        return super().applied() | {"augmentation": self._chosen}


class UCBDrAC(PPO):
    """DrAC that chooses the augmentation before every update, with a bandit that is part of its checkpoint."""

    HYPERPARAMETERS = ("lr", "clip", "entropy", "alpha")
    REGULARISED = True

    def __init__(self, seed: int, settings: Settings) -> None:
        super().__init__(seed, settings)
        self._bandit = UCB(list(AUGMENTATIONS))

    def _augmentation(self, mean_return: float) -> str | None:
        self._bandit.reward(mean_return)
        return self._bandit.choose()

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"bandit": self._bandit.state()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._bandit.restore(state["bandit"])


def _steps_elsewhere(device: torch.device) -> bool:
    """Return whether environments are stepped in other processes: members on a GPU are threads of one process."""
    return device.type == "cuda"


def _network(settings: Settings) -> Network:
    device = torch.device(settings.device)
    if device.type == "cpu":
        return PlainTrunk()
    from popbandits_experiments.paper.procgen.torch_trunk import TorchTrunk

    if settings.precision == "float32":
        return TorchTrunk(device, torch.float32)
    from popbandits_experiments.paper.procgen.compiled import Kernels, NoCompiler
    from popbandits_experiments.paper.procgen.fused import FusedTrunk
    from popbandits_experiments.paper.procgen.fused_network import FusedNetwork
    from popbandits_experiments.paper.procgen.kernel_table import AllKernels

    try:
        launcher = AllKernels(lambda source: Kernels(source, (), device))
    except NoCompiler as error:
        warn(f"Without our own kernels, an update takes several times as long: {error}", stacklevel=2)
        return TorchTrunk(device, torch.bfloat16)
    return FusedNetwork(FusedTrunk(device, launcher), device)


def _digest(config: Mapping[str, Any]) -> int:
    return int.from_bytes(hashlib.blake2b(json.dumps(config, sort_keys=True).encode(), digest_size=8).digest())


def _mean(returns: list[float]) -> float:
    return float(np.mean(returns)) if returns else float("nan")
