"""Whole updates of the batched learner beside a plain PPO for one agent."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from experiments.tests.batched.plain import PlainPPO, Scripted, Steps
from popbandits_experiments.batched.device import DeviceWorld
from popbandits_experiments.batched.learning import ADVANTAGES
from popbandits_experiments.batched.ppo import _ORDERS, BatchedPPO, Settings
from popbandits_experiments.batched.random import Streams, derive_keys
from popbandits_experiments.batched.tasks import TASKS

LENGTH, COPIES, INPUTS, ACTIONS = 10, 8, 3, 3
SETTINGS = Settings(copies=COPIES, rollout=LENGTH, updates=2, episodes=2, hidden=8)
OWN = {
    "adam": {"lr": 2e-2, "beta1": 0.8},
    "rmsprop": {"lr": 1e-2, "smoothing": 0.95},
    "sgd": {"lr": 0.05, "momentum": 0.7},
}


def make_configs(shift: int) -> list[dict[str, Any]]:
    """Make 9 configurations: every pair of an optimizer, a normalisation and a size of minibatch (a Latin square)."""
    configs = []
    for row, column in product(range(3), repeat=2):
        optimizer, odd = list(OWN)[row], (row + column + shift) % 2
        configs.append(
            {
                "optimizer": optimizer,
                **OWN[optimizer],
                "advantages": ADVANTAGES[column],
                "minibatches": (1, 4, 16)[(row + column + shift) % 3],
                "value_clip": bool(odd),
                "epochs": 1 + (2 * row + column + 2) % 3,
                "one_minus_gamma": (0.02, 0.15)[odd],
                "gae_lambda": (0.95, 0.8)[odd],
                "clip": (0.1, 0.02)[odd],
                "entropy": (0.05, 0.01)[odd],
                "vf_coef": (0.5, 1.5)[odd],
                "max_grad_norm": (0.4, 3.0)[odd],
            }
        )
    return configs


def make_rollouts(members: int, discrete: bool, count: int) -> list[Steps]:
    """Make rollouts with terminal states, time limits, both, and scales that are nothing like 1."""
    generator = torch.Generator().manual_seed(int(discrete))
    shape = (members, LENGTH, COPIES)

    def draw(*more: int) -> torch.Tensor:
        return torch.randn(*shape, *more, generator=generator)

    rollouts = []
    for _ in range(count):
        over = torch.rand(shape, generator=generator) < 0.2
        rollouts.append(
            {
                "observations": draw(INPUTS) * torch.tensor([1.0, 20.0, 0.1]) + torch.tensor([0.0, 5.0, 1.0]),
                "following": draw(INPUTS) * torch.tensor([1.0, 20.0, 0.1]) + torch.tensor([0.0, 5.0, 1.0]),
                "actions": draw(ACTIONS).argmax(-1) if discrete else draw(ACTIONS) + 0.5,
                "rewards": draw() * 5 - 1,
                "discounted": draw() * 9 + 2,
                "terminated": over & (torch.rand(shape, generator=generator) < 0.5),
                "over": over,
            }
        )
    return rollouts


@pytest.mark.parametrize(
    ("discrete", "raw"), [(True, False), (False, False), (False, True)], ids=["choices", "numbers", "raw"]
)
def test_two_intervals_are_those_of_a_plain_agent_for_every_kind_of_configuration(discrete: bool, raw: bool) -> None:
    first = make_configs(shift=int(discrete))
    second = [{**config, "lr": config["lr"] / 2, "clip": 0.05, "epochs": 1} for config in first]
    second[0] = {**second[0], "optimizer": "sgd", "momentum": 0.5}  # drops Adam's moments
    members = len(first)
    rollouts = make_rollouts(members, discrete, count=4)
    agent = BatchedPPO(range(members), Scripted(rollouts, ACTIONS, discrete), replace(SETTINGS, raw=raw))
    start = agent.brains.flat.clone()
    plain = [PlainPPO([weight[i] for weight in agent.brains.weights], discrete, raw) for i in range(members)]
    for interval, configs in enumerate((first, second)):
        trained = agent.state["trained"].clone()
        agent.train(configs)
        for one, config in zip(plain, configs, strict=True):
            one.begin(config)
        for update in range(SETTINGS.updates):
            forked = Streams(derive_keys(agent.state["key"], trained + update)).fork(_ORDERS)
            orders = [forked.uniform(LENGTH * COPIES).argsort(1) for _ in range(3)]
            for i, one in enumerate(plain):
                steps = {name: tensor[i] for name, tensor in rollouts[2 * interval + update].items()}
                one.update(steps, [order[i] for order in orders[: configs[i]["epochs"]]])
        expected = torch.stack([one.flat() for one in plain])
        moved = (expected - start).abs().amax(1, keepdim=True)
        assert (moved > 1e-3).all()
        # Single precision on one side; Adam and RMSprop divide small gradients by small roots, which magnifies it.
        assert ((agent.brains.flat - expected).abs() / moved).max() < 1e-3
        for i, one in enumerate(plain):
            observed = [] if raw else [(agent.brains.observed, one.observed)]
            for ours, theirs in (*observed, (agent.brains.rewarded, one.rewarded)):
                torch.testing.assert_close(ours.mean[i], theirs.mean, rtol=1e-5, atol=1e-6)
                deviation = (ours.squares[i] / ours.count[i]).sqrt()
                torch.testing.assert_close(deviation, theirs.deviation, rtol=1e-5, atol=0)
    # The clips were at work, or this test could not tell them from none.
    for clipped in ("clipped", "values_clipped", "gradients_clipped"):
        assert sum(getattr(one, clipped) > 0 for one in plain) >= 2


def test_an_epoch_is_for_as_few_members_as_hold_all_that_have_one_left() -> None:
    agent = BatchedPPO(range(8), DeviceWorld(TASKS["CartPole-v1"]), SETTINGS)
    sizes = [len(part.learners.table[0]) for part in agent._parts([6, 1, 1, 1, 2, 2, 4, 4])]
    assert sizes == [8, 6, 4, 4, 2, 2]  # 8, 5, 3, 3, 1 and 1 have an epoch left.
    assert agent._parts([3] * 8) == [agent._epoch] * 3
