"""Worlds in EnvPool: environments stepped on CPU cores, one pool for all members."""

import envpool
import numpy as np
import torch
from torch import Tensor

from popbandits.errors import ArgumentError
from popbandits_experiments.batched.brains import Brains
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.batched.rollouts import Play, Rollout, Test, World


class PoolWorld(World):
    """An EnvPool task with vector observations."""

    normalise = True

    def __init__(self, name: str, limit: int, threads: int = 1):
        self.name, self.limit, self.threads = name, limit, threads
        spec = envpool.make_spec(name)
        action = spec.action_array_spec["action"]
        self.inputs = spec.state_array_spec["obs"].shape[-1]
        self.discrete = np.issubdtype(action.dtype, np.integer)
        self.actions = int(action.maximum) + 1 if self.discrete else action.shape[-1]
        self.largest = 1.0 if self.discrete else float(np.max(action.maximum))
        """Largest continuous action: policies act between -1 and 1, of which it is a multiple."""
        if not self.discrete and not (
            np.all(-action.minimum == self.largest) and np.all(action.maximum == self.largest)
        ):
            raise ArgumentError(
                f"actions must have the same bounds, -a and a, got {name}, whose actions are between "
                f"{action.minimum} and {action.maximum}"
            )

    def play(self, brains: Brains, gamma: Tensor, rollout: Rollout, stream: "torch.cuda.Stream | None") -> Play:
        """Make the environments that members train in."""
        return _PoolPlay(self, brains, gamma, rollout)

    def test(self, brains: Brains, episodes: int, stream: "torch.cuda.Stream | None") -> Test:
        """Make the environments that members are scored in."""
        return lambda streams: _Pool(self, episodes, streams, brains.flat.device).finish(brains, streams)


class _Pool:
    """A pool of `copies` environments of each member, seeded by the members' own streams."""

    def __init__(self, world: PoolWorld, copies: int, streams: Streams, device: torch.device):
        seeds = (streams.uniform(copies) * 2**24).long().flatten().tolist()
        self.world, self.device, self.copies = world, device, copies
        self._pool = envpool.make_gymnasium(
            world.name, num_envs=len(seeds), seed=seeds, num_threads=world.threads, max_episode_steps=world.limit
        )
        self._observations, _ = self._pool.reset()

    def observe(self) -> Tensor:
        """Return the current observations, (A, copies, D)."""
        rows = torch.as_tensor(self._observations, dtype=torch.float32, device=self.device)
        return rows.clone().view(-1, self.copies, self.world.inputs)

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Act in each environment; return next observations, rewards, terminated and over. Restart what is over."""
        self._observations, rewards, terminated, truncated, _ = self._pool.step(self._pool_actions(actions))
        following = self.observe()
        over = terminated | truncated
        self.restart(over)  # EnvPool would start them in the next step and ignore its action.

        def tensor(values: "np.ndarray[tuple[int], np.dtype[np.generic]]") -> Tensor:
            return torch.as_tensor(values, device=self.device).view(-1, self.copies)

        return following, tensor(rewards.astype(np.float32)), tensor(terminated), tensor(over)

    def restart(self, which: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> None:
        """Start new episodes in some of the environments."""
        if len(ids := np.flatnonzero(which).astype(np.int32)):
            fresh, info = self._pool.reset(ids)
            self._observations[info["env_id"]] = fresh

    @torch.no_grad()
    def finish(self, brains: Brains, streams: Streams) -> Tensor:
        """Play every episode to its end, stepping only unfinished ones; return the returns, (A, copies)."""
        returns = np.zeros(len(self._observations), dtype=np.float32)
        running = np.arange(len(returns), dtype=np.int32)
        while len(running):
            outputs = brains.policy(brains.see(self.observe()))
            actions = brains.act(outputs, brains.noise(streams, self.copies)) if brains.discrete else outputs
            stepped = self._pool.step(self._pool_actions(actions)[running], running)
            observations, rewards, terminated, truncated, info = stepped
            ids = info["env_id"]
            self._observations[ids] = observations
            returns[ids] += rewards
            running = ids[~(terminated | truncated)].astype(np.int32)
        return torch.as_tensor(returns, device=self.device).view(-1, self.copies)

    def _pool_actions(self, actions: Tensor) -> "np.ndarray[tuple[int, ...], np.dtype[np.generic]]":
        flat = actions.flatten(0, 1).cpu()
        # A diverged member must not crash a physics engine that all members share.
        flat = flat.int() if self.world.discrete else self.world.largest * flat.nan_to_num(0.0).clamp(-1, 1)
        return flat.numpy()


class _PoolPlay(Play):
    """Environments that stay where they are: EnvPool cannot copy them.

    Members carry a mark of their last interval here. Whoever comes back with another mark (a copy, an earlier state, a
    fresh start) gets new episodes; the environments of all others go on.
    """

    def __init__(self, world: PoolWorld, brains: Brains, gamma: Tensor, rollout: Rollout):
        self._world, self._brains, self._gamma, self._rollout = world, brains, gamma, rollout
        members, copies = len(gamma), rollout.rewards.shape[2]
        self._discounted = torch.zeros(members, copies, device=gamma.device)
        self._marks = torch.zeros(members, dtype=torch.int64, device=gamma.device)
        self._known = self._marks.clone()
        self._pool: _Pool | None = None

    @property
    def state(self) -> dict[str, Tensor]:
        return {"interval": self._marks}

    def begin(self, streams: Streams) -> None:
        if self._pool is None:
            self._pool = _Pool(self._world, self._rollout.rewards.shape[2], streams, self._gamma.device)
        changed = self._marks != self._known
        self._pool.restart(changed.repeat_interleave(self._discounted.shape[1]).cpu().numpy())
        self._discounted.masked_fill_(changed[:, None], 0.0)
        slots = torch.arange(len(self._marks), device=self._marks.device)
        self._marks.copy_(self._known.max() + 1 + slots)  # Of no other member, and of no other interval.
        self._known.copy_(self._marks)

    @torch.no_grad()
    def collect(self, streams: Streams) -> None:
        brains, out, pool = self._brains, self._rollout, self._pool
        assert pool is not None, "an interval must have begun"
        _, steps, copies = out.rewards.shape
        noise = brains.noise(streams, steps, copies)
        for t in range(steps):
            observations = pool.observe()
            actions = brains.act(brains.policy(brains.see(observations)), noise[:, t])
            following, rewards, terminated, over = pool.step(actions)
            self._discounted = self._discounted * self._gamma + rewards
            step = (observations, following, actions, rewards, self._discounted, terminated, over)
            for buffer, value in zip(vars(out).values(), step, strict=True):
                buffer[:, t] = value
            self._discounted = self._discounted * ~over
