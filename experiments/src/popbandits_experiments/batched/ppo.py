"""PPO (Schulman et al. 2017) for a whole population in one program.

Every member has its own weights, environments and hyperparameters. Hyperparameters are tensors, so a change of
configuration recompiles nothing. On a GPU, a rollout, its preparation and an epoch are one CUDA graph each; on a CPU
the same procedures run without graphs.

| symbol | meaning |
|---|---|
| A | members |
| N | environments of a member |
| T | steps of a rollout |
| M | transitions of a member's rollout: T N |
| C | chunks of an epoch: the gradients of C / minibatches chunks make one step of the optimizer |

Details follow `popbandits.rl.ppo`: observations and rewards are normalised by running scales, unless they are wanted
raw; where a time limit cuts an episode off, the critic's value replaces the rest of the return. Members are
independent: all products are batched, all reductions are within a member, and random numbers depend on a member's own
key (`random.py`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from popbandits.agent import Outcome
from popbandits.errors import ArgumentError
from popbandits.rl.threads import use_one_thread
from popbandits_experiments.batched.brains import Brains
from popbandits_experiments.batched.learning import ADVANTAGES, SETTINGS, Epoch, Learners, Transitions
from popbandits_experiments.batched.members import MemberRows
from popbandits_experiments.batched.optimizers import MINIBATCHES, minibatch_ends
from popbandits_experiments.batched.random import Streams, keys_of
from popbandits_experiments.batched.rollouts import Rollout, World
from popbandits_experiments.cuda_graphs import Replayed, stream_on

_CHOICES: dict[str, tuple[Any, ...]] = {"minibatches": MINIBATCHES, "advantages": ADVANTAGES}
SHARED_STATES = 32
"""States of a population on which the behaviours of its members are compared."""
PARTS = (1.0, 0.75, 0.5, 0.25)
"""Shares of the members that an epoch can be for: members with few epochs need not wait for those with many."""
# Labels of the streams that do not fill rollouts.
_ENVIRONMENTS, _ORDERS, _SCORES = range(3)


@dataclass(frozen=True)
class Settings:
    """Settings that are not tuned."""

    copies: int = 16
    """Environments per member: N."""
    rollout: int = 64
    """Steps per environment between two updates: T."""
    updates: int = 10
    """Rollouts per interval; an interval has `updates * rollout * copies` environment steps."""
    episodes: int = 16
    """Fresh episodes after an interval; their mean return is its score."""
    hidden: int = 32
    """Width of the two hidden layers of policy and critic."""
    tf32: bool = False
    """True if a GPU may round the factors of products to 11 bits; three times as fast on wide observations."""
    raw: bool = False
    """True to learn from observations and rewards as they are, as libraries do unless told otherwise."""

    @property
    def steps(self) -> int:
        """Environment steps of an interval."""
        return self.updates * self.rollout * self.copies


class BatchedPPO(MemberRows):
    """A population of PPO agents, as a batched agent.

    A configuration holds lr, one_minus_gamma, gae_lambda, clip, entropy, vf_coef, max_grad_norm, epochs, minibatches,
    advantages, value_clip, optimizer, and the optimizer's own hyperparameter: beta1 (adam), smoothing (rmsprop) or
    momentum (sgd).
    """

    def __init__(self, seeds: Sequence[int], world: World, settings: Settings, device: str | torch.device = "cpu"):
        if (rows := settings.rollout * settings.copies) % MINIBATCHES[-1]:
            raise ArgumentError(f"rollout * copies must be a multiple of {MINIBATCHES[-1]}, got {rows}")
        members, stream = len(seeds), stream_on(torch.device(device))
        super().__init__(members, device)
        self.world, self.settings = world, settings
        normalise = world.normalise and not settings.raw
        self.brains = Brains(
            members, world.inputs, world.actions, world.discrete, settings.hidden, self.device, normalise
        )
        self.learners = Learners(self.brains)
        self.optimizer, self._own = self.learners.optimizer, self.learners.own
        self._gamma = torch.zeros(members, 1, device=self.device)
        self.rollout = Rollout.empty(self.brains, settings.rollout, settings.copies)
        self.data = Transitions.empty(self.brains, self.rollout.actions)
        self.play = world.play(self.brains, self._gamma, self.rollout, stream)
        self.test = world.test(self.brains, settings.episodes, stream)
        self._prepare = Replayed(self._prepare_rollout, stream)
        sizes = {math.ceil(share * members) for share in PARTS}
        self._epochs = {size: Epoch(self.learners, self.data, size, stream) for size in sorted(sizes)}
        """Epochs for all members, and for parts of them, by their number."""
        self._epoch = self._epochs[members]
        self._start(range(members), seeds)

    def _rows(self) -> dict[str, Tensor]:
        """Return what is learnt, and the environments, by name, a row for each member."""
        return {**self.brains.state, **self.optimizer.state, **self.play.state}

    def _fresh(self, keys: Tensor) -> dict[str, Tensor]:
        """Draw initial weights, reset the scales and start episodes, a row for each key."""
        fresh, streams = self.brains.empty(len(keys)), Streams(keys)
        fresh.flat.copy_(fresh.draw(streams))
        return {**fresh.state, **self.play.fresh(streams.fork(_ENVIRONMENTS))}

    def applied(self) -> list[dict[str, Any]]:
        """Return the hyperparameters of the last interval, read from where they are used."""
        own = [dict(zip(SETTINGS, row, strict=True)) for row in self.learners.table.T.tolist()]
        return [
            {
                **steps,
                **row,
                **{name: round(row[name]) for name in ("epochs", "minibatches")},
                "value_clip": bool(row["value_clip"]),
                "advantages": ADVANTAGES[round(row["advantages"])],
            }
            for steps, row in zip(self.optimizer.applied(), own, strict=True)
        ]

    def train(self, configs: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """Train every member for an interval; scores are mean returns of fresh episodes, NaN if weights diverged.

        Rollouts go on where the last interval ended, so k intervals of one rollout are one interval of k.
        """
        if self.device.type == "cpu":
            use_one_thread()
        torch.backends.cuda.matmul.allow_tf32 = self.settings.tf32
        self._configure(configs)
        longest = self._own["epochs"].argsort(descending=True, stable=True)
        parts = self._parts([int(config["epochs"]) for config in configs])
        self.play.begin(self._streams().fork(_ENVIRONMENTS))
        for _ in range(self.settings.updates):
            streams = self._streams()
            self.play.collect(streams)
            self._prepare()
            # The number of epochs depends on the other members; what a member draws later must not.
            orders = streams.fork(_ORDERS)
            for epoch, learn in enumerate(parts):
                self.data.order.copy_(orders.uniform(self.data.order.shape[1]).argsort(dim=1))
                left = (epoch < self._own["epochs"])[:, None]
                self.learners.due.copy_(minibatch_ends(self._own["minibatches"]) & left)
                learn(longest)
            self._trained += 1
        returns = self.test(self._streams().fork(_SCORES))
        self._labels = ()
        sound = self.brains.flat.isfinite().all(1)
        scores = torch.where(sound, returns.mean(1), math.nan).tolist()
        count = returns.shape[1]
        errors = (returns.std(1) / math.sqrt(count)).tolist() if count > 1 else [math.nan] * len(scores)
        steps = self.settings.steps
        return [
            Outcome(s, steps, {"standard_error": e} if math.isfinite(e) else {})
            for s, e in zip(scores, errors, strict=True)
        ]

    def evaluate(self, members: Sequence[int], episodes: int, seeds: Sequence[int]) -> Tensor:
        """Play fresh episodes with some of the members; return their returns, (members, episodes)."""
        rows = torch.tensor(list(members), device=self.device)
        chosen = self.brains.empty(len(rows))
        for name, tensor in chosen.state.items():
            tensor.copy_(self.brains.state[name][rows])
        chosen.observed.refresh()
        return self.world.test(chosen, episodes, stream_on(self.device))(Streams(keys_of(seeds, self.device)))

    @torch.no_grad()
    def behaviours(self, size: int) -> list[list[float]]:
        """Return what members do on states that their population shares: mean actions, or probabilities of choices.

        Populations are `size` neighbours. States are those of the last rollout, as many from each member, evenly over
        its steps and environments. Means are clipped to [-1, 1], as tasks clip actions.
        """
        brains, rows = self.brains, self.rollout.observations.flatten(1, 2)
        each = torch.linspace(0, rows.shape[1] - 1, math.ceil(SHARED_STATES / size), device=self.device).long()
        states = rows[:, each].reshape(len(rows) // size, -1, brains.inputs).nan_to_num(0.0)  # (populations, states, D)
        outputs = brains.policy(brains.see(states.repeat_interleave(size, 0)))
        done = outputs.softmax(-1) if brains.discrete else outputs.clamp(-1, 1)
        found: list[list[float]] = done.flatten(1).tolist()
        return found

    def _configure(self, configs: Sequence[Mapping[str, Any]]) -> None:
        """Write the hyperparameters of an interval to the buffers that the graphs read."""
        for config in configs:
            for name, options in _CHOICES.items():
                if config[name] not in options:
                    raise ArgumentError(f"{name} must be one of {options}, got {config[name]!r}")
        self.optimizer.configure(configs)
        numbered = [{**config, "advantages": ADVANTAGES.index(config["advantages"])} for config in configs]
        self.learners.table.copy_(torch.tensor([[float(config[name]) for config in numbered] for name in SETTINGS]))
        self._gamma.copy_((1 - self._own["one_minus_gamma"].double())[:, None])
        self.brains.observed.refresh()

    def _parts(self, epochs: Sequence[int]) -> list[Epoch]:
        """Return, epoch by epoch, the smallest part that holds every member with an epoch left."""
        left = [sum(count > epoch for count in epochs) for epoch in range(max(epochs))]
        return [next(part for size, part in self._epochs.items() if size >= count) for count in left]

    @torch.no_grad()
    def _prepare_rollout(self) -> None:
        """Update the scales from a rollout, and estimate advantages and the critic's targets.

        Generalised advantage estimation (Schulman et al. 2016): Â_t = δ_t + γ λ Â_{t+1} within an episode,
        δ_t = r_t + γ V(s_{t+1}) - V(s_t), without V(s_{t+1}) where s_{t+1} is terminal.
        """
        brains, out, own = self.brains, self.rollout, self._own
        seen = brains.see(out.observations.flatten(1, 2))
        self.data.seen.copy_(seen)
        following = brains.value(brains.see(out.following.flatten(1, 2))).view_as(out.rewards)
        values = brains.value(seen).view_as(out.rewards)
        before = brains.log_probabilities(brains.policy(seen), out.actions.flatten(1, 2))
        if brains.normalise:
            brains.observed.update(out.observations.flatten(1, 2))
        brains.rewarded.update(out.discounted.flatten(1, 2)[..., None])
        rewards = out.rewards if self.settings.raw else brains.rewarded.shrink(out.rewards)
        gamma = self._gamma[..., None]
        errors = rewards + gamma * following * ~out.terminated - values
        decay = gamma * own["gae_lambda"][:, None, None] * ~out.over
        advantages = torch.empty_like(errors)
        last = torch.zeros_like(errors[:, 0])
        for t in reversed(range(errors.shape[1])):
            last = torch.addcmul(errors[:, t], decay[:, t], last)
            advantages[:, t] = last
        advantages, values = advantages.flatten(1), values.flatten(1)
        targets = advantages + values
        centred = (advantages - advantages.mean(1, keepdim=True)) / (
            advantages.std(1, keepdim=True, correction=0) + 1e-8
        )
        advantages = torch.where((own["advantages"] == 1)[:, None], centred, advantages)
        self.data.facts.copy_(torch.stack([before, advantages, targets, values], -1))
