"""Whole updates, from frames and rewards to parameters, against PPO and DrAC written down plainly."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.distributions import Categorical, kl_divergence

from experiments.tests.paper.procgen.narrow import narrow
from experiments.tests.paper.procgen.test_network import reference
from popbandits.basics.typing import BoolArray, FloatArray
from popbandits_experiments.paper.procgen import agent as agent_module
from popbandits_experiments.paper.procgen.agent import PPO, Settings
from popbandits_experiments.paper.procgen.learner import Learner, PlainTrunk, Sizes
from popbandits_experiments.paper.procgen.network import TRUNK_SIZE, heads, split, trunk
from popbandits_experiments.paper.procgen.reserve_pool import ReservePool

SIZES = Sizes(environments=2, steps=6, epochs=2, minibatches=2)
LR, CLIP, ENTROPY, ALPHA = 1e-4, 0.02, 0.2, 0.5
DISCOUNT, DECAY = 0.999, 0.95


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Rollout(NamedTuple):
    frames: NDArray[np.uint8]  # One row more than the others have: what was seen after the last step.
    actions: NDArray[np.int32]
    rewards: FloatArray
    ended: BoolArray


def play(learner: Learner, seed: int, brightness: int) -> Rollout:
    """A rollout of random frames, rewards and ends; the actions are the learner's."""
    rng = np.random.default_rng(seed)
    steps, environments = SIZES.steps, SIZES.environments
    colours = rng.integers(brightness, size=(steps + 1, environments, 3, 4, 4), dtype=np.uint8)
    frames = colours.repeat(16, 3).repeat(16, 4)
    learner.begin(Generator().manual_seed(seed))
    actions = []
    for seen in frames:
        learner.frames[:] = seen
        actions.append(learner.act().copy())
    rewards, ended = rng.normal(0.3, 1, (steps, environments)), rng.random((steps, environments)) < 0.2
    return Rollout(frames, np.stack(actions[:-1]), rewards, ended)


def advantages(rewards: FloatArray, ended: BoolArray, values: FloatArray) -> FloatArray:
    """GAE, Σ (γλ)^l δ_{t+l}, summed term by term up to the end of the episode."""
    sums = np.zeros_like(rewards)
    for start, environment in np.ndindex(sums.shape):
        weight = 1.0
        for step in range(start, len(sums)):
            goes_on = not ended[step, environment]
            following = DISCOUNT * values[step + 1, environment] * goes_on
            sums[start, environment] += weight * (rewards[step, environment] + following - values[step, environment])
            weight *= DISCOUNT * DECAY * goes_on
    return sums


class Plain(nn.Module):
    """PPO and DrAC with modules, loops, and PyTorch's own gradient clipping and optimizer."""

    def __init__(self, flat: Tensor) -> None:
        super().__init__()
        self.hidden, self.policy, self.value = reference(), nn.Linear(256, 15), nn.Linear(256, 1)
        with torch.no_grad():
            for parameter, part in zip(self.parameters(), split(flat), strict=True):
                parameter.copy_(part)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=LR, eps=1e-5)
        self.norms: list[float] = []
        self.ratios: list[float] = []

    def flat(self) -> Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.parameters()])

    def forward(self, frames: Tensor) -> tuple[Categorical, Tensor]:
        hidden = self.hidden(frames / 255)
        return Categorical(logits=self.policy(hidden)), self.value(hidden)[:, 0]

    def values(self, frames: NDArray[np.uint8]) -> FloatArray:
        with torch.no_grad():
            return np.stack([self(torch.from_numpy(row))[1].double().numpy() for row in frames])

    def learn(self, rollout: Rollout, generator: Generator, *, regularised: bool) -> float:
        """Update; the mean λ-return."""
        frames = torch.from_numpy(rollout.frames[:-1]).flatten(0, 1).float()
        actions = torch.from_numpy(rollout.actions).flatten()
        with torch.no_grad():
            log_probabilities = self(frames)[0].log_prob(actions)
        values = self.values(rollout.frames)
        sums = advantages(rollout.rewards, rollout.ended, values)
        scores, targets, old = (
            torch.from_numpy(array).float().flatten()
            for array in ((sums - sums.mean()) / (sums.std(ddof=1) + 1e-5), sums + values[:-1], values[:-1])
        )
        for _ in range(SIZES.epochs):
            for at in torch.randperm(len(frames), generator=generator).chunk(SIZES.minibatches):
                policy, value = self(frames[at])
                ratio = (policy.log_prob(actions[at]) - log_probabilities[at]).exp()
                surrogate = torch.min(ratio * scores[at], ratio.clip(1 - CLIP, 1 + CLIP) * scores[at])
                near = old[at] + (value - old[at]).clip(-CLIP, CLIP)
                errors = torch.max((value - targets[at]) ** 2, (near - targets[at]) ** 2) / 2
                loss = (-surrogate + 0.5 * errors - ENTROPY * policy.entropy()).mean()
                if regularised:
                    gray = torch.einsum("nchw,c->nhw", frames[at], torch.tensor([0.299, 0.587, 0.114]))
                    other, other_value = self(torch.stack([gray] * 3, 1))
                    clean = Categorical(logits=policy.logits.detach())
                    apart = kl_divergence(clean, other) + (other_value - value.detach()) ** 2 / 2
                    loss = loss + ALPHA * apart.mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.norms.append(nn.utils.clip_grad_norm_(self.parameters(), 0.5).item())
                self.ratios += ratio.tolist()
                self.optimizer.step()
        return float(targets.mean())


def learn(seed: int, brightness: int, *, regularised: bool) -> Plain:
    """Let both learn from the same rollout, and compare what became of the same parameters."""
    learner = Learner(0, SIZES, PlainTrunk(), torch.device("cpu"), regularised=regularised)
    learner.set(lr=LR, clip=CLIP, entropy=ENTROPY, alpha=ALPHA)
    state = learner.state()
    before = state["parameters"]
    before += 0.01 * torch.randn(before.shape, generator=Generator().manual_seed(1))  # A policy with preferences.
    learner.restore(state)
    plain = Plain(before)
    play(learner, seed + 1, brightness)  # Nothing may be left of an earlier rollout.
    rollout = play(learner, seed, brightness)
    mean_return = learner.look_back(rollout.rewards, rollout.ended)
    learner.update("grayscale" if regularised else None, Generator().manual_seed(4))
    assert mean_return == pytest.approx(plain.learn(rollout, Generator().manual_seed(4), regularised=regularised), 1e-5)

    found, expected = learner.state()["parameters"], plain.flat()
    torch.testing.assert_close(found[TRUNK_SIZE:], expected[TRUNK_SIZE:], rtol=0, atol=0.02 * LR)
    # Rounding may put a unit of the trunk on the other side of its kink, where a few of the gradient's entries jump.
    error, moved = (found - expected)[:TRUNK_SIZE], (expected - before)[:TRUNK_SIZE]
    assert error.norm() < 0.02 * moved.norm()
    return plain


def test_ppo_learns_as_published() -> None:
    plain = learn(2, 256, regularised=False)
    assert min(plain.ratios) < 1 - CLIP
    assert max(plain.ratios) > 1 + CLIP


def test_drac_learns_as_published() -> None:
    learn(2, 256, regularised=True)


def test_gradients_longer_than_a_half_are_shortened_and_others_are_not() -> None:
    norms = learn(7, 32, regularised=False).norms  # Dark frames have short gradients.
    assert min(norms) < 0.5 < max(norms)


def test_actions_are_drawn_from_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch.setattr)
    learner = Learner(0, Sizes(64, 31, 1, 31), PlainTrunk(), torch.device("cpu"), regularised=False)
    state, chances = learner.state(), torch.arange(1.0, 16) / 120
    state["parameters"].zero_()
    split(state["parameters"])[-3].copy_(chances.log())  # The policy's bias: whatever is seen, these are the chances.
    learner.restore(state)
    learner.begin(Generator().manual_seed(0))
    actions = np.concatenate([learner.act().copy() for _ in range(32)])
    assert np.bincount(actions, minlength=15) / len(actions) == pytest.approx(chances.numpy(), abs=0.03)


def test_every_step_is_recorded_in_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch.setattr)
    sizes = Sizes(environments=5, steps=3, epochs=1, minibatches=1)
    learner = Learner(0, sizes, PlainTrunk(), torch.device("cpu"), regularised=False)
    state = learner.state()
    state["parameters"] += 0.05 * torch.randn(state["parameters"].shape, generator=Generator().manual_seed(1))
    learner.restore(state)
    frames = np.random.default_rng(0).integers(256, size=(4, 5, 3, 64, 64), dtype=np.uint8)
    for seed in (3, 4):  # The second rollout begins at the first row again.
        learner.begin(Generator().manual_seed(seed))
        acted = []
        for row in range(4):
            learner.frames[:] = frames[row]
            acted.append(learner.act().tolist())
        recorded = learner._rollout
        assert torch.equal(recorded.frames, torch.from_numpy(frames))
        assert recorded.actions.tolist() == acted
        assert len({action for row in acted for action in row}) > 3
        for row in range(4):
            features = trunk(recorded.frames[row].float(), state["parameters"])
            logits, values = heads(features, state["parameters"])
            assert (logits + recorded.noise[row]).argmax(1).tolist() == acted[row]
            policies = logits.log_softmax(1).gather(1, recorded.actions[row, :, None])[:, 0]
            torch.testing.assert_close(recorded.log_probabilities[row], policies, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(recorded.values[row], values, rtol=1e-5, atol=1e-6)


def test_an_agent_learns_from_rewards_over_the_spread_of_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    # Episodes of the hard fruitbot are short, and have rewards.
    agent = PPO(0, Settings("fruitbot", "hard", interval=256, sizes=Sizes(environments=4, steps=32), threads=1))
    look_back = agent.learner.look_back
    log: defaultdict[str, list[Any]] = defaultdict(list)

    class Watched(ReservePool):
        def reset(self, frames: Any) -> None:
            super().reset(frames)
            log["frames"].append(frames.copy())

        def step(self, actions: Any, frames: Any) -> Any:
            rewards, ended = super().step(actions, frames)
            log["rewards"].append(rewards.astype(float))
            log["ends"].append(ended)
            log["frames"].append(frames.copy())
            return rewards, ended

    def recorded(rewards: FloatArray, ended: BoolArray) -> float:
        log["given"].extend(rewards)
        log["mean return"].append(look_back(rewards, ended))
        return 0.0

    monkeypatch.setattr(agent_module, "ReservePool", Watched)
    monkeypatch.setattr(agent.learner, "look_back", recorded)
    monkeypatch.setattr(agent.learner, "update", lambda *_: None)
    for _ in range(2):
        agent.train({"lr": LR, "clip": CLIP, "entropy": ENTROPY})

    raw, ends, frames = (np.stack(log[name]) for name in ("rewards", "ends", "frames"))
    assert np.count_nonzero(raw) > 5
    assert ends.any()
    scaled, returns, counted = np.zeros_like(raw), np.zeros(4), np.zeros(0)
    for step, (rewards, ended) in enumerate(zip(raw, ends, strict=True)):
        if step == len(raw) // 2:
            returns = np.zeros(4)  # An interval begins with new environments; what was counted stays.
        returns = 0.99 * returns + rewards
        counted = np.append(counted, returns)
        returns[ended] = 0
        weight = len(counted) + 1e-4  # As if 1e-4 returns with a mean of 0 and a variance of 1 had come before.
        mean = counted.sum() / weight
        variance = (((counted - mean) ** 2).sum() + 1e-4 * (1 + mean**2)) / weight
        scaled[step] = np.clip(rewards / np.sqrt(variance + 1e-8), -10, 10)
    assert np.allclose(log["given"], scaled, rtol=1e-6, atol=0)

    # Of the first rollout: rewards belong to their frames, and the frame after the last step has a value, too.
    values = Plain(agent.learner.state()["parameters"]).values(frames[:33])
    first = advantages(scaled[:32], ends[:32], values) + values[:-1]
    assert log["mean return"][0] == pytest.approx(first.mean(), rel=1e-4)
