"""Gradients of PPO's objective beside those of autograd, from the objective as the paper writes it."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, Independent, Normal

from popbandits_experiments.batched.objective import Coefficients, continuous_gradients, discrete_gradients

MEMBERS, ROWS, ACTIONS = 6, 40, 3
DOUBLE = torch.float64


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


@pytest.fixture
def own() -> Coefficients:
    """Coefficients of every member, clipped values for half of them."""

    def column(*values: float) -> Tensor:
        return torch.tensor(values, dtype=DOUBLE)[:, None]

    return Coefficients(
        clip=column(0.02, 0.1, 0.2, 0.3, 0.6, 1.0),
        vf_coef=column(0.5, 2.0, 0.05, 1.0, 0.5, 0.1),
        entropy=column(0.0, 0.1, 0.01, 0.0, 0.2, 0.05),
        value_clip=column(0, 1, 0, 1, 1, 0),
        share=column(1 / 16, 1, 1 / 4, 1 / 2, 1 / 16, 1 / 8),
    )


def objective(policy: Distribution, values: Tensor, actions: Tensor, facts: Tensor, own: Coefficients) -> Tensor:
    """Compute the members' objectives, (P,)."""
    before, advantages, targets, values_before = facts.unbind(-1)
    ratio = (policy.log_prob(actions) - before).exp()
    surrogate = torch.min(ratio * advantages, ratio.clamp(1 - own.clip, 1 + own.clip) * advantages)
    error = (values - targets).square()
    near = values_before + (values - values_before).clamp(-own.clip, own.clip)
    error = torch.where(own.value_clip > 0, torch.max(error, (near - targets).square()), error)
    rows = -surrogate + own.vf_coef * error / 2 - own.entropy * policy.entropy()
    return (own.share * rows).mean(1)


def random_facts(policy: Distribution, values: Tensor, actions: Tensor, generator: torch.Generator) -> Tensor:
    """Draw advantages and targets; what was before is near what is now, and often out of the clips."""

    def near(tensor: Tensor) -> Tensor:
        return tensor.detach() + 0.3 * torch.randn(tensor.shape, generator=generator, dtype=DOUBLE)

    advantages, targets = torch.randn(2, MEMBERS, ROWS, generator=generator, dtype=DOUBLE)
    return torch.stack([near(policy.log_prob(actions)), advantages, targets, near(values)], -1)


def test_the_gradients_of_choices_are_those_of_autograd(generator: torch.Generator, own: Coefficients) -> None:
    logits = torch.randn(MEMBERS, ROWS, ACTIONS, generator=generator, dtype=DOUBLE, requires_grad=True)
    values = torch.randn(MEMBERS, ROWS, generator=generator, dtype=DOUBLE, requires_grad=True)
    actions = torch.randint(ACTIONS, (MEMBERS, ROWS), generator=generator)
    policy = Categorical(logits=logits)
    facts = random_facts(policy, values, actions, generator)
    expected = torch.autograd.grad(objective(policy, values, actions, facts, own).sum(), (logits, values))
    assert (expected[1] == 0).any()  # Clipped values have no gradient.
    torch.testing.assert_close(discrete_gradients(logits, values, actions, facts, own), expected)


def test_the_gradients_of_numbers_are_those_of_autograd(generator: torch.Generator, own: Coefficients) -> None:
    means = torch.randn(MEMBERS, ROWS, ACTIONS, generator=generator, dtype=DOUBLE, requires_grad=True)
    spread = (0.3 * torch.randn(MEMBERS, 1, ACTIONS, generator=generator, dtype=DOUBLE)).requires_grad_()
    values = torch.randn(MEMBERS, ROWS, generator=generator, dtype=DOUBLE, requires_grad=True)
    policy = Independent(Normal(means, spread.exp().expand_as(means)), 1)
    actions = policy.sample()
    facts = random_facts(policy, values, actions, generator)
    expected = torch.autograd.grad(objective(policy, values, actions, facts, own).sum(), (means, spread, values))
    assert (expected[0] == 0).all(-1).any()  # Clipped ratios have no gradient.
    torch.testing.assert_close(continuous_gradients(means, spread, values, actions, facts, own), expected)


def test_inside_the_clips_ties_have_the_whole_gradient(own: Coefficients) -> None:
    logits = torch.zeros(MEMBERS, ROWS, 2, dtype=DOUBLE)
    before = torch.full((MEMBERS, ROWS), 0.5, dtype=DOUBLE).log()
    ones = torch.ones_like(before)
    facts = torch.stack(
        [before, ones, 3 * ones, ones], -1
    )  # nothing has changed yet: the ratio is 1, the value as it was
    by_logits, by_values = discrete_gradients(logits, ones, ones.long(), facts, own._replace(entropy=0 * own.clip))
    unit = (own.share / ROWS).expand_as(ones)
    torch.testing.assert_close(by_logits, torch.stack([unit / 2, -unit / 2], -1))
    torch.testing.assert_close(by_values, -2 * own.vf_coef * unit)
