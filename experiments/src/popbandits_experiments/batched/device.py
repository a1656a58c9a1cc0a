"""Worlds on the device: environments as tensors, stepped where the policies are, without a copy to the host."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from popbandits_experiments.batched.brains import Brains
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.batched.rollouts import Play, Rollout, Test, World
from popbandits_experiments.batched.tasks.task import State, Task
from popbandits_experiments.cuda_graphs import Replayed


class DeviceWorld(World):
    """A task whose environments are tensors."""

    def __init__(self, task: Task):
        self.task = task
        self.inputs, self.actions, self.discrete = math.prod(task.observation), task.actions, task.discrete
        self.normalise = len(task.observation) == 1

    def play(self, brains: Brains, gamma: Tensor, rollout: Rollout, stream: "torch.cuda.Stream | None") -> Play:
        """Make the environments that members train in."""
        return DevicePlay(self.task, brains, gamma, rollout, stream)

    def test(self, brains: Brains, episodes: int, stream: "torch.cuda.Stream | None") -> Test:
        """Make the environments that members are scored in."""
        return DeviceTest(self.task, brains, episodes, stream)


class DevicePlay(Play):
    """N environments of each member as tensors; T steps are one CUDA graph."""

    def __init__(self, task: Task, brains: Brains, gamma: Tensor, rollout: Rollout, stream: "torch.cuda.Stream | None"):
        self.task, self.brains, self.gamma, self.rollout = task, brains, gamma, rollout
        members, self.steps, self.copies, _ = rollout.observations.shape
        device = gamma.device
        self._state = _buffers(task.start(torch.zeros(members, self.copies, task.start_noise, device=device)))
        self._age = torch.zeros(members, self.copies, dtype=torch.int64, device=device)
        self._discounted = torch.zeros(members, self.copies, device=device)
        self._noise: tuple[Tensor, ...] = ()
        self._play = Replayed(self._procedure, stream)

    @property
    def state(self) -> dict[str, Tensor]:
        """Tensors of the environments by name, a row for each member."""
        return self._named(self._state, self._age, self._discounted)

    def fresh(self, streams: Streams) -> dict[str, Tensor]:
        """Return the state of environments at the start of an episode, with ages that end them at different times."""
        state = self.task.start(streams.uniform(self.copies, self.task.start_noise))
        age = (streams.uniform(self.copies) * (self.task.limit // 2)).long()
        return self._named(state, age, torch.zeros(age.shape, device=age.device))

    @staticmethod
    def _named(state: State, age: Tensor, discounted: Tensor) -> dict[str, Tensor]:
        parts = {f"environment.{index}": tensor for index, tensor in enumerate(state)}
        return {**parts, "environment.age": age, "environment.discounted": discounted}

    def begin(self, streams: Streams) -> None:
        """Go on where the last interval ended."""

    def collect(self, streams: Streams) -> None:
        """Fill the rollout with the next T steps."""
        shape, task = (self.steps, self.copies), self.task
        noise = (
            self.brains.noise(streams, *shape),
            streams.uniform(*shape, task.step_noise),
            streams.uniform(*shape, task.start_noise),
        )
        if not self._noise:
            self._noise = noise
        _assign(self._noise, noise)
        self._play()

    @torch.no_grad()
    def _procedure(self) -> None:
        state, age, discounted, out = self._state, self._age, self._discounted, self.rollout
        acting, stepping, starting = self._noise
        fresh = self.task.start(starting)
        for t in range(self.steps):
            observations = self.task.observe(state).flatten(2)
            actions = self.brains.act(self.brains.policy(self.brains.see(observations)), acting[:, t])
            state, rewards, terminated = self.task.step(state, actions, stepping[:, t])
            age = age + 1
            over = terminated | (age >= self.task.limit)
            discounted = discounted * self.gamma + rewards
            following = self.task.observe(state).flatten(2)
            step = (observations, following, actions, rewards, discounted, terminated, over)
            for buffer, value in zip(vars(out).values(), step, strict=True):
                buffer[:, t] = value
            discounted = discounted * ~over
            age = age * ~over
            state = choose(over, tuple(tensor[:, t] for tensor in fresh), state)
        _assign(self._state, state)
        self._age.copy_(age)
        self._discounted.copy_(discounted)


class DeviceTest:
    """E fresh episodes of each member; the time limit is split into blocks, each replayed as one CUDA graph."""

    def __init__(self, task: Task, brains: Brains, episodes: int, stream: "torch.cuda.Stream | None"):
        self.task, self.brains, self.episodes = task, brains, episodes
        self.block = max(size for size in range(1, 65) if task.limit % size == 0)
        members, device = len(brains.flat), brains.flat.device
        self._state = _buffers(task.start(torch.zeros(members, episodes, task.start_noise, device=device)))
        self._returns = torch.zeros(members, episodes, device=device)
        self._alive = torch.ones_like(self._returns, dtype=torch.bool)
        self._noise: tuple[Tensor, ...] = ()
        self._play = Replayed(self._procedure, stream)

    def __call__(self, streams: Streams) -> Tensor:
        """Play the episodes and return their returns, (A, E)."""
        task, episodes = self.task, self.episodes
        _assign(self._state, task.start(streams.uniform(episodes, task.start_noise)))
        self._returns.zero_()
        self._alive.fill_(True)
        for _ in range(task.limit // self.block):
            shape = (self.block, episodes)
            noise = (self.brains.noise(streams, *shape), streams.uniform(*shape, task.step_noise))
            if not self._noise:
                self._noise = noise
            _assign(self._noise, noise)
            self._play()
        return self._returns.clone()

    @torch.no_grad()
    def _procedure(self) -> None:
        state, alive = self._state, self._alive
        acting, stepping = self._noise
        for t in range(self.block):
            outputs = self.brains.policy(self.brains.see(self.task.observe(state).flatten(2)))
            # Continuous policies act by their means, as they are used after training; discrete ones draw.
            actions = self.brains.act(outputs, acting[:, t]) if self.brains.discrete else outputs
            state, rewards, terminated = self.task.step(state, actions, stepping[:, t])
            self._returns += torch.where(alive, rewards, 0.0)  # Rewards after the end may be NaN.
            alive = alive & ~terminated
        _assign(self._state, state)
        self._alive.copy_(alive)


def choose(condition: Tensor, yes: State, no: State) -> State:
    """Select each environment's state from one of two, by a condition (A, N)."""
    return tuple(
        torch.where(condition.view(*condition.shape, *(1,) * (new.ndim - condition.ndim)), new, old)
        for new, old in zip(yes, no, strict=True)
    )


def _buffers(state: State) -> State:
    """Copy a state into tensors that share no memory."""
    return tuple(tensor.clone(memory_format=torch.contiguous_format) for tensor in state)


def _assign(buffers: Iterable[Tensor], values: Iterable[Tensor]) -> None:
    for buffer, value in zip(buffers, values, strict=True):
        buffer.copy_(value)
