"""PPO's and DrAC's arithmetic against calculations that share nothing with it."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, kl_divergence

from popbandits_experiments.paper.procgen.losses import Batch, lambda_returns, ppo_loss, regularisation

B = 64


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_returns_are_the_exponential_average_of_n_step_returns() -> None:
    """GAE's definition, (1 - λ) Σ λ^(n-1) R^(n), summed term by term."""
    steps, discount, decay = 12, 0.999, 0.95
    rewards, values = normal(steps, 3, seed=0).numpy(), normal(steps + 1, 3, seed=1).numpy()
    ended = np.zeros((steps, 3), bool)
    ended[4, 0] = ended[11, 1] = ended[0, 2] = ended[1, 2] = True
    result = lambda_returns(rewards, values, ended)
    for env in range(3):
        for start in range(steps):
            last = next((t for t in range(start, steps) if ended[t, env]), steps - 1)
            horizon = last - start + 1
            n_step = []
            for n in range(1, horizon + 1):
                total = sum(discount**i * rewards[start + i, env] for i in range(n))
                if not ended[start + n - 1, env]:
                    total += discount**n * values[start + n, env]
                n_step.append(total)
            weights = [(1 - decay) * decay ** (n - 1) for n in range(1, horizon)] + [decay ** (horizon - 1)]
            expected = sum(w * r for w, r in zip(weights, n_step, strict=True))
            assert result[start, env] == pytest.approx(expected, rel=1e-9)


@pytest.fixture
def batch() -> Batch:
    actions = torch.randint(15, (B,), generator=torch.Generator().manual_seed(0))
    old = Categorical(logits=normal(B, 15, seed=2)).log_prob(actions)
    return Batch(actions, old, normal(B, seed=3), normal(B, seed=4), normal(B, seed=5))


@pytest.mark.parametrize(("clip", "entropy"), [(0.2, 0.01), (0.01, 0.0), (0.5, 0.2)])
def test_ppos_loss_is_the_published_one(batch: Batch, clip: float, entropy: float) -> None:
    logits, values = normal(B, 15, seed=6), normal(B, seed=7)
    loss = ppo_loss(logits, values, batch, torch.tensor(clip), torch.tensor(entropy))
    total = 0.0
    for row in range(B):
        scores = logits[row].numpy()
        policy = np.exp(scores) / np.exp(scores).sum()
        ratio = policy[batch.actions[row]] / math.exp(batch.log_probabilities[row])
        advantage, value, target = batch.advantages[row].item(), values[row].item(), batch.returns[row].item()
        total -= min(ratio * advantage, min(max(ratio, 1 - clip), 1 + clip) * advantage)
        old = batch.values[row].item()
        near = old + min(max(value - old, -clip), clip)
        total += 0.5 * 0.5 * max((value - target) ** 2, (near - target) ** 2)
        total += entropy * (policy * np.log(policy)).sum()
    assert loss.item() == pytest.approx(total / B, rel=1e-6)


def test_a_large_change_of_the_policy_is_not_rewarded(batch: Batch) -> None:
    """Where the ratio is beyond the clip in the advantage's direction, no gradient is left."""
    logits = normal(B, 15, seed=6).requires_grad_()
    ratio = (Categorical(logits=logits).log_prob(batch.actions) - batch.log_probabilities).exp()
    beyond = torch.where(batch.advantages > 0, ratio > 1.2, ratio < 0.8)
    loss = ppo_loss(logits, batch.values, batch, torch.tensor(0.2), torch.tensor(0.0))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert 0 < beyond.sum() < B
    assert torch.equal(gradient.abs().sum(1) == 0, beyond)


def test_regularisation_is_the_divergence_from_the_clean_policy_and_half_the_squared_change_of_value() -> None:
    logits, augmented = normal(B, 15, seed=8), normal(B, 15, seed=9)
    values, augmented_values = normal(B, seed=10), normal(B, seed=11)
    divergence = kl_divergence(Categorical(logits=logits), Categorical(logits=augmented)).mean()
    expected = divergence + 0.5 * (augmented_values - values).pow(2).mean()
    assert regularisation(logits, values, augmented, augmented_values).item() == pytest.approx(expected.item())
    assert regularisation(logits, values, logits, values).item() == pytest.approx(0, abs=1e-12)


def test_regularisation_pulls_only_at_the_augmented_side() -> None:
    tensors = [normal(B, 15, seed=8), normal(B, seed=10), normal(B, 15, seed=9), normal(B, seed=11)]
    for tensor in tensors:
        tensor.requires_grad_()
    gradients = torch.autograd.grad(regularisation(*tensors), tensors, allow_unused=True)
    assert gradients[:2] == (None, None)
    assert all(gradient is not None and gradient.any() for gradient in gradients[2:])


def test_its_gradient_is_what_the_published_sample_has_on_average() -> None:
    """Minus log π(ã|f(s)), averaged over ã from π(.|s)."""
    logits, augmented = normal(B, 15, seed=8), normal(B, 15, seed=9).requires_grad_()
    nothing = torch.zeros(B)
    (ours,) = torch.autograd.grad(regularisation(logits, nothing, augmented, nothing), augmented)
    policy = logits.softmax(1)
    expectation = -(policy * augmented.log_softmax(1)).sum(1).mean()
    (theirs,) = torch.autograd.grad(expectation, augmented)
    assert torch.allclose(ours, theirs)
