"""Proximal policy optimisation (Schulman et al. 2017) as an agent whose hyperparameters may change between intervals.

| symbol | meaning |
|---|---|
| T | steps of a rollout |
| N | parallel environments |
| B | transitions of a minibatch |
| D, A | size of an observation, number of actions |

Details that matter, after "The 37 Implementation Details of PPO" (Huang et al. 2022): observations are normalised by
their running mean and deviation, rewards by the running deviation of the discounted return; weights start orthogonal,
the policy's last layer small; advantages are normalised in each minibatch; the gradient's norm is clipped; where a time
limit or the end of a rollout cuts an episode off, the critic's value replaces the rest of the return.

A checkpoint holds everything but the hyperparameters, which `train` is given, and the environments, which EnvPool
cannot save: every interval starts new ones, seeded by the agent's own generator. So an interval depends only on its
checkpoint and its hyperparameters, on every engine and after a resume.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import envpool
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax
from torch.optim import SGD, Adam, Optimizer, RMSprop

from popbandits.agent import Outcome
from popbandits.basics.typing import BoolArray, FloatArray
from popbandits.errors import ArgumentError
from popbandits.rl.threads import use_one_thread, without_onednn


@dataclass(frozen=True)
class Settings:
    """Settings that are not tuned."""

    environment: str = "LunarLander-v3"
    """Name of an EnvPool task with vector observations and discrete actions."""
    limit: int = 500
    """Steps after which an episode is cut off."""
    copies: int = 32
    """Parallel environments: N."""
    rollout: int = 64
    """Steps per environment between two updates: T."""
    updates: int = 6
    """Updates per interval."""
    minibatch: int = 512
    """Maximum number of transitions per optimizer step: B."""
    episodes: int = 32
    """Fresh episodes after an interval. Their mean return is the score; training returns belong to older policies."""
    gamma: float = 0.999
    """Discount per step."""
    hidden: int = 64
    """Width of the two hidden layers of policy and critic."""
    value_weight: float = 0.5
    """Weight of the critic's loss."""
    gradient_norm: float = 0.5
    """Maximum norm of the gradient."""


LANDER = Settings()


class PPO:
    """An agent for tasks with discrete actions.

    A configuration holds lr, clip, entropy, gae_lambda, epochs and optimizer, and the optimizer's own hyperparameters:
    beta1 and beta2 (adam), smoothing (rmsprop) or momentum (sgd).
    """

    def __init__(self, seed: int, settings: Settings = LANDER):
        use_one_thread()
        self.settings = settings
        self.generator = torch.Generator().manual_seed(seed)
        task = envpool.make_spec(settings.environment)
        inputs, actions = task.state_array_spec["obs"].shape[-1], int(task.action_array_spec["action"].maximum) + 1
        self.network = Network(inputs, actions, settings.hidden, self.generator)
        self.weights = list(self.network.parameters())
        self.moments: dict[str, Any] = {"optimizer": None, "state": {}}
        self.steps = 0

    @without_onednn()
    def train(self, config: dict[str, Any]) -> Outcome:
        """Train for one interval; the score is the mean return of fresh episodes, NaN if the weights diverged."""
        use_one_thread()
        self.loss = Loss(config["clip"], config["entropy"], self.settings.value_weight)
        self.gae_lambda, self.epochs = config["gae_lambda"], config["epochs"]
        self.optimizer = make_optimizer(self.weights, config)
        if self.moments["optimizer"] == config["optimizer"]:
            # Restore the moments, not the hyperparameters.
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": self.moments["state"]})
        play = Play(self.settings, self.settings.copies, self.generator)
        steps = 0
        for _ in range(self.settings.updates):
            rollout = self._collect(play)
            self._learn(rollout)
            steps += int(rollout.real.sum())
            if not all(bool(weight.isfinite().all()) for weight in self.weights):
                return Outcome(math.nan)
        self.steps += steps
        self.moments = {"optimizer": config["optimizer"], "state": self.optimizer.state_dict()["state"]}
        score = self.evaluate(seed=int(torch.randint(2**31 - 1, (), generator=self.generator)))
        return Outcome(score, steps=steps, metrics={"total_steps": self.steps})

    def save(self, directory: Path) -> None:
        """Write everything but the hyperparameters."""
        state = {
            "network": self.network.state_dict(),
            "moments": self.moments,
            "generator": self.generator.get_state(),
            "steps": self.steps,
        }
        torch.save(state, directory / "ppo.pt")

    def load(self, directory: Path) -> None:
        """Restore a saved agent."""
        state = torch.load(directory / "ppo.pt", weights_only=True)
        self.network.load_state_dict(state["network"])
        self.moments = state["moments"]
        self.generator.set_state(state["generator"])
        self.steps = state["steps"]

    def applied(self) -> dict[str, Any]:
        """Return the hyperparameters of the last interval, read from where they are used."""
        return {
            **read_optimizer(self.optimizer),
            "clip": self.loss.clip,
            "entropy": self.loss.entropy,
            "gae_lambda": self.gae_lambda,
            "epochs": self.epochs,
        }

    @without_onednn()
    def evaluate(self, episodes: int | None = None, *, seed: int) -> float:
        """Return the mean return of fresh episodes, acting as in training; equal seeds give equal starts."""
        use_one_thread()
        episodes = self.settings.episodes if episodes is None else episodes
        generator = torch.Generator().manual_seed(seed)
        play = Play(self.settings, episodes, generator)
        total, running = np.zeros(episodes), np.arange(episodes, dtype=np.int32)
        observations = play.observations
        while len(running):
            actions = self.network.act(self.network.see(observations), generator)
            # Step only the unfinished episodes: the others would be most of the work towards the end.
            observations, rewards, terminated, truncated, info = play.environments.step(actions.int().numpy(), running)
            total[info["env_id"]] += rewards
            unfinished = ~(terminated | truncated)
            observations, running = observations[unfinished], info["env_id"][unfinished]
        return float(total.mean())

    def _collect(self, play: "Play") -> "Rollout":
        """Act for T steps, then update the scales of observations and rewards."""
        network = self.network
        seen, actions, steps = [network.see(play.observations)], [], []
        for _ in range(self.settings.rollout):
            actions.append(network.act(seen[-1], self.generator))
            steps.append(play.step(actions[-1], self.settings.gamma))
            seen.append(network.see(play.observations))
        columns = (torch.from_numpy(np.stack(column)) for column in zip(*steps, strict=True))
        observations, rewards, discounted, terminated, over, real = columns
        network.observed.update(observations[real])
        network.rewarded.update(discounted[real][:, None])
        scaled = (rewards / network.rewarded.deviation).float()
        return Rollout(torch.stack(seen), torch.stack(actions), scaled, terminated, over, real)

    def _learn(self, rollout: "Rollout") -> None:
        """Improve policy and critic on a rollout."""
        network, real = self.network, rollout.real
        with torch.no_grad():
            preferences, values = network(rollout.seen)
            before = log_probability(rollout.actions, log_softmax(preferences[:-1], -1))
            advantages = estimate_advantages(
                rollout.rewards, values, rollout.terminated, rollout.over, self.settings.gamma, self.gae_lambda
            )
        columns = (rollout.seen[:-1], rollout.actions, before, advantages, advantages + values[:-1])
        batch = Minibatch(*(column[real] for column in columns))
        count = len(batch.seen)
        for _ in range(self.epochs):
            order = torch.randperm(count, generator=self.generator)
            parts = math.ceil(count / self.settings.minibatch)
            for minibatch in map(Minibatch, *(column[order].tensor_split(parts) for column in batch)):
                preferences, values = network(minibatch.seen)
                self.optimizer.zero_grad()
                self.loss(preferences, values, minibatch).backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(self.weights, self.settings.gradient_norm, foreach=True)
                self.optimizer.step()


class Minibatch(NamedTuple):
    """Transitions to learn from, one per row."""

    seen: Tensor
    """Normalised observations, (B, D)."""
    actions: Tensor
    """(B,), like all fields below."""
    before: Tensor
    """Log-probabilities of the actions at the time they were drawn."""
    advantages: Tensor
    targets: Tensor
    """Targets of the critic."""


@dataclass(frozen=True)
class Loss:
    """-E[min(r Â, clip(r, 1 - ε, 1 + ε) Â)] + c E[(V - R)²] / 2 - β H.

    r is the ratio of the probabilities of an action now and before, Â the normalised advantage, H the policy's entropy;
    ε is `clip`, β is `entropy`, c is `value_weight`.
    """

    clip: float
    entropy: float
    value_weight: float

    def __call__(self, preferences: Tensor, values: Tensor, batch: Minibatch) -> Tensor:
        """Compute the loss of a minibatch from the outputs of policy and critic."""
        logarithms = log_softmax(preferences, -1)
        ratio = (log_probability(batch.actions, logarithms) - batch.before).exp()
        advantages = batch.advantages - batch.advantages.mean()
        advantages = advantages / (advantages.std(correction=0) + 1e-8)
        clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
        gain = torch.minimum(ratio * advantages, clipped * advantages).mean()
        miss = (values - batch.targets).square().mean() / 2
        entropy = -(logarithms.exp() * logarithms).sum(-1).mean()
        return -gain + self.value_weight * miss - self.entropy * entropy


def log_probability(actions: Tensor, logarithms: Tensor) -> Tensor:
    """Return the log-probabilities of actions, from those of all actions, (..., A)."""
    return logarithms.gather(-1, actions[..., None]).squeeze(-1)


def estimate_advantages(
    rewards: Tensor, values: Tensor, terminated: Tensor, over: Tensor, gamma: float, gae_lambda: float
) -> Tensor:
    """Estimate generalised advantages (Schulman et al. 2016): Â_t = δ_t + γ λ Â_{t+1}, (T, N).

    δ_t = r_t + γ V(s_{t+1}) - V(s_t), without V(s_{t+1}) where s_{t+1} is terminal. Where an episode is over, Â_{t+1}
    belongs to the next one and is left out.

    Args:
        values: values of all states, including the one after the last step, (T + 1, N).
    """
    errors = rewards + gamma * values[1:] * ~terminated - values[:-1]
    advantages = torch.empty_like(errors)
    following = torch.zeros_like(errors[0])
    for t in reversed(range(len(errors))):
        following = errors[t] + gamma * gae_lambda * following * ~over[t]
        advantages[t] = following
    return advantages


def make_optimizer(weights: list[nn.Parameter], config: Mapping[str, Any]) -> Optimizer:
    """Make the optimizer of a configuration; `fused` and `foreach` avoid a Python loop over the weights."""
    match config["optimizer"]:
        case "adam":
            return Adam(weights, config["lr"], (config["beta1"], config["beta2"]), fused=True)
        case "rmsprop":
            return RMSprop(weights, config["lr"], config["smoothing"], foreach=True)
        case "sgd":
            return SGD(weights, config["lr"], config["momentum"], foreach=True)
        case other:
            raise ArgumentError(f"optimizer must be adam, rmsprop or sgd, got {other!r}")


def read_optimizer(optimizer: Optimizer) -> dict[str, Any]:
    """Read the hyperparameters of an optimizer, named as in a configuration."""
    (group,) = optimizer.param_groups
    match optimizer:
        case Adam():
            own = {"optimizer": "adam", "beta1": group["betas"][0], "beta2": group["betas"][1]}
        case RMSprop():
            own = {"optimizer": "rmsprop", "smoothing": group["alpha"]}
        case _:
            own = {"optimizer": "sgd", "momentum": group["momentum"]}
    return {"lr": group["lr"], **own}


class Network(nn.Module):
    """Policy and critic, with the running scales of observations and rewards."""

    def __init__(self, inputs: int, actions: int, hidden: int, generator: torch.Generator):
        super().__init__()
        self.policy = _make_perceptron([inputs, hidden, hidden, actions], 0.01, generator)
        self.critic = _make_perceptron([inputs, hidden, hidden, 1], 1.0, generator)
        self.observed = RunningScale(inputs)
        self.rewarded = RunningScale(1)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Compute preferences for the actions, (..., A), and values, (...)."""
        return self.policy(seen), self.critic(seen).squeeze(-1)

    @torch.no_grad()
    def see(self, observations: npt.NDArray[np.float32]) -> Tensor:
        """Normalise observations for policy and critic."""
        centred = torch.from_numpy(observations) - self.observed.mean
        return (centred / self.observed.deviation).float().clamp(-10, 10)

    @torch.no_grad()
    def act(self, seen: Tensor, generator: torch.Generator) -> Tensor:
        """Draw actions."""
        return torch.multinomial(self.policy(seen).softmax(-1), 1, generator=generator).squeeze(-1)


def _make_perceptron(widths: list[int], last_gain: float, generator: torch.Generator) -> nn.Sequential:
    layers: list[nn.Module] = []
    for index, (inputs, outputs) in enumerate(pairwise(widths)):
        # Allocated without values: PyTorch would draw them from the global generator.
        layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
        nn.init.orthogonal_(layer.weight, last_gain if index == len(widths) - 2 else math.sqrt(2), generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class RunningScale(nn.Module):
    """Running mean and deviation; a module, so that it is saved with the weights."""

    count: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(self, size: int):
        super().__init__()
        # Starts as if one value had been seen, at a distance of 1 from the mean 0: the deviation is never 0.
        self.register_buffer("count", torch.ones((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("squares", torch.ones(size, dtype=torch.float64))

    def update(self, rows: Tensor) -> None:
        """Add rows, (any number, size), with the result of Welford's algorithm row by row."""
        self.count += len(rows)
        distances = rows - self.mean
        self.mean += distances.sum(0) / self.count
        self.squares += (distances * (rows - self.mean)).sum(0)

    @property
    def deviation(self) -> Tensor:
        """Standard deviation, (size,)."""
        return (self.squares / self.count).sqrt()


class Rollout(NamedTuple):
    """T steps in N environments."""

    seen: Tensor
    """Normalised observations, including those after the last step, (T + 1, N, D)."""
    actions: Tensor
    """(T, N), like all fields below."""
    rewards: Tensor
    terminated: Tensor
    """True if the episode ended in a terminal state."""
    over: Tensor
    """True if the episode ended, in a terminal state or by its time limit."""
    real: Tensor
    """False where EnvPool only started a new episode, as it does in the step after an episode's end."""


class Step(NamedTuple):
    """A step in N environments; `observations` are from before the step."""

    observations: npt.NDArray[np.float32]
    rewards: npt.NDArray[np.float32]
    discounted: FloatArray
    """Sums of the episodes' rewards so far, older ones discounted."""
    terminated: BoolArray
    over: BoolArray
    real: BoolArray


class Play:
    """N running environments; they cannot be saved in a checkpoint."""

    def __init__(self, settings: Settings, copies: int, generator: torch.Generator):
        seeds = torch.randint(2**31 - 1, (copies,), generator=generator).tolist()
        self.environments = envpool.make_gymnasium(
            settings.environment, num_envs=copies, seed=seeds, num_threads=1, max_episode_steps=settings.limit
        )
        self.observations, _ = self.environments.reset()
        self.over = np.zeros(copies, dtype=np.bool_)
        self.discounted = np.zeros(copies)

    def step(self, actions: Tensor, gamma: float = 1.0) -> Step:
        """Act in every environment; start a new episode instead where the last one is over."""
        before, real = self.observations, ~self.over
        self.observations, rewards, terminated, truncated, _ = self.environments.step(actions.int().numpy())
        self.over = terminated | truncated
        self.discounted = self.discounted * real * gamma + rewards
        return Step(before, rewards, self.discounted, terminated, self.over, real)
