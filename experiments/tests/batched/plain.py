"""PPO for one agent, to compare with: loops over environments, steps and minibatches, in double precision.

It follows the paper (Schulman et al. 2017) and `popbandits.rl.ppo`, with modules and optimizers of PyTorch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, Normal

from popbandits_experiments.batched.brains import Brains
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.batched.rollouts import Play, Rollout, Test, World

Steps = dict[str, Tensor]
"""The tensors of a rollout by name, (A, T, N, ...), or (T, N, ...) of one agent."""


class Scripted(World):
    """A world without environments: its rollouts are given, so that an update depends on nothing else."""

    normalise = True

    def __init__(self, rollouts: Sequence[Steps], actions: int, discrete: bool):
        self.rollouts, self.actions, self.discrete = rollouts, actions, discrete
        self.inputs = rollouts[0]["observations"].shape[-1]
        self.given = 0

    def play(self, brains: Brains, gamma: Tensor, rollout: Rollout, stream: Any) -> Play:
        world = self

        class Give(Play):
            def begin(self, streams: Streams) -> None: ...

            def collect(self, streams: Streams) -> None:
                for name, tensor in world.rollouts[world.given].items():
                    getattr(rollout, name).copy_(tensor)
                world.given += 1

        return Give()

    def test(self, brains: Brains, episodes: int, stream: Any) -> Test:
        return lambda streams: torch.zeros(len(brains.flat), episodes)


class Seen:
    """Everything seen so far, after a first row of zeros that counts as if 1 away from its mean."""

    def __init__(self, size: int):
        self.rows = torch.zeros(1, size, dtype=torch.float64)

    def add(self, rows: Tensor) -> None:
        self.rows = torch.cat([self.rows, rows])

    @property
    def mean(self) -> Tensor:
        return self.rows.mean(0)

    @property
    def deviation(self) -> Tensor:
        return (((self.rows - self.mean).square().sum(0) + 1) / len(self.rows)).sqrt()


class PlainPPO:
    """One agent, as a textbook has it."""

    def __init__(self, weights: Sequence[Tensor], discrete: bool, raw: bool = False):
        self.discrete, self.raw = discrete, raw
        self.policy, self.critic = _perceptron(weights[:6]), _perceptron(weights[6:12])
        self.weights = [*self.policy.parameters(), *self.critic.parameters()]
        if not discrete:
            self.spread = nn.Parameter(weights[12].detach().double().flatten().clone())
            self.weights.append(self.spread)
        self.observed, self.rewarded = Seen(self.policy[0].in_features), Seen(1)
        self.optimizer: torch.optim.Optimizer | None = None
        self.clipped, self.values_clipped, self.gradients_clipped = 0, 0, 0

    def begin(self, config: Mapping[str, Any]) -> None:
        """Begin an interval: an optimizer of the same kind goes on with its moments."""
        self.config, before = config, self.optimizer
        self.optimizer = make_optimizer(self.weights, config)
        if isinstance(before, type(self.optimizer)):
            self.optimizer.state.update(before.state)

    def update(self, steps: Steps, orders: Sequence[Tensor]) -> None:
        """Learn from one rollout, (T, N, ...), going through its transitions in the given order for each epoch."""
        config = self.config
        steps = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in steps.items()}
        gamma = 1 - config["one_minus_gamma"]
        decay, terminated, over = gamma * config["gae_lambda"], steps["terminated"], steps["over"]
        with torch.no_grad():
            seen, following = self._see(steps["observations"]), self._see(steps["following"])
            values, after = self.critic(seen).squeeze(-1), self.critic(following).squeeze(-1)
            before = self._policy_of(seen).log_prob(steps["actions"])
        self.observed.add(steps["observations"].flatten(0, 1))
        self.rewarded.add(steps["discounted"].flatten()[:, None])
        rewards = steps["rewards"] / (1.0 if self.raw else self.rewarded.deviation)
        columns = [column.T.tolist() for column in (rewards, values, after, terminated, over)]
        rows = [estimate(*environment, gamma, decay) for environment in zip(*columns, strict=True)]
        advantages = torch.tensor(rows, dtype=torch.float64).T
        targets = advantages + values
        if config["advantages"] == "rollout":
            advantages = normalise(advantages)
        seen, actions = seen.flatten(0, 1), steps["actions"].flatten(0, 1)
        facts = [column.flatten() for column in (before, advantages, targets, values)]
        for order in orders:
            for chosen in order.chunk(config["minibatches"]):
                self._step(seen[chosen], actions[chosen], *(column[chosen] for column in facts))

    def _step(
        self, seen: Tensor, actions: Tensor, before: Tensor, advantages: Tensor, targets: Tensor, values: Tensor
    ) -> None:
        config = self.config
        if config["advantages"] == "minibatch":
            advantages = normalise(advantages)
        policy, clip = self._policy_of(seen), config["clip"]
        ratio = (policy.log_prob(actions) - before).exp()
        gain = torch.min(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages).mean()
        now = self.critic(seen).squeeze(-1)
        miss = (now - targets) ** 2
        if config["value_clip"]:
            near = values + (now - values).clamp(-clip, clip)
            miss = torch.max(miss, (near - targets) ** 2)
            self.values_clipped += int((near != now).sum())
        loss = -gain + config["vf_coef"] * 0.5 * miss.mean() - config["entropy"] * policy.entropy().mean()
        assert self.optimizer is not None
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.weights, config["max_grad_norm"])
        self.optimizer.step()
        self.clipped += int(((ratio - 1).abs() > clip).sum())
        self.gradients_clipped += int(norm > config["max_grad_norm"])

    def _see(self, observations: Tensor) -> Tensor:
        if self.raw:
            return observations
        return ((observations - self.observed.mean) / self.observed.deviation).clamp(-10, 10)

    def _policy_of(self, seen: Tensor) -> Any:
        outputs = self.policy(seen)
        if self.discrete:
            return Categorical(logits=outputs)
        return Independent(Normal(outputs, self.spread.exp().expand_as(outputs)), 1)

    def flat(self) -> Tensor:
        """Put all weights in the order of `Brains`."""
        parts = [w.T if w.ndim == 2 else w for w in self.weights]
        return torch.cat([part.detach().flatten() for part in parts])


def estimate(
    rewards: list[float],
    values: list[float],
    after: list[float],
    terminated: list[bool],
    over: list[bool],
    gamma: float,
    decay: float,
) -> list[float]:
    """Add up, for each step of one environment, the errors of all later steps of the same episode."""
    advantages = []
    for t in range(len(rewards)):
        total = 0.0
        for k in range(t, len(rewards)):
            rest = 0.0 if terminated[k] else gamma * after[k]
            total += decay ** (k - t) * (rewards[k] + rest - values[k])
            if over[k]:
                break
        advantages.append(total)
    return advantages


def normalise(advantages: Tensor) -> Tensor:
    return (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)


def make_optimizer(weights: Sequence[Tensor], config: Mapping[str, Any]) -> torch.optim.Optimizer:
    match config["optimizer"]:
        case "adam":
            return torch.optim.Adam(weights, config["lr"], betas=(config["beta1"], 0.999), eps=1e-5)
        case "rmsprop":
            return torch.optim.RMSprop(weights, config["lr"], alpha=config["smoothing"], eps=1e-5)
        case _:
            return torch.optim.SGD(weights, config["lr"], momentum=config["momentum"])


def _perceptron(weights: Sequence[Tensor]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
        layer = nn.Linear(*matrix.shape, dtype=torch.float64)
        layer.weight.data, layer.bias.data = matrix.detach().double().T.clone(), bias.detach().double()[0].clone()
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])
