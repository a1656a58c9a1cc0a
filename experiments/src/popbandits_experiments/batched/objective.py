"""PPO's objective for many members, as the gradient of what networks output.

Autograd would run some hundred small kernels for what a compiler makes two of; a GPU spends more time on starting them
than on the products of the networks. So the gradients are written down here, and checked against autograd by a test.

Each member minimises (Schulman et al. 2017), over B transitions with Â the advantage and R the critic's target,

    L = -E[min(r Â, clip(r, 1 - ε, 1 + ε) Â)] + c E[(V - R)²] / 2 - β H,   r = π(a|s) / π_before(a|s)

With value_clip, the critic's error is the larger of two: its own, and the error of V clipped to within ε of the value
before.

| gradient | |
|---|---|
| ∂L/∂log π(a|s) | -r Â / B; 0 where the clipped term is the smaller one |
| ∂L/∂V | c (V - R) / B; 0 where the clipped error is the larger one |
| discrete, of logit k | ∂log π(a|s) = 1[a = k] - π_k, and ∂H = -π_k (log π_k + H(s)) / B |
| continuous, of mean k | ∂log π(a|s) = (a_k - μ_k) / σ_k² |
| continuous, of log σ_k | ∂log π(a|s) = (a_k - μ_k)² / σ_k² - 1, and ∂H = 1 |
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from popbandits_experiments.batched.brains import LOG_ROOT_2PI


class Coefficients(NamedTuple):
    """Hyperparameters of the objective, (P, 1) each."""

    clip: Tensor
    """ε."""
    vf_coef: Tensor
    """c."""
    entropy: Tensor
    """β."""
    value_clip: Tensor
    """Greater than 0 if the critic's change is clipped too."""
    share: Tensor
    """Factor of the objective: the share of a chunk in its minibatch."""


def discrete_gradients(
    logits: Tensor, values: Tensor, actions: Tensor, facts: Tensor, own: Coefficients
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of logits, (P, B, K), and of values, (P, B).

    `actions` are (P, B); `facts` are log-probabilities before, advantages, targets and values before, (P, B, 4).
    """
    logarithms = log_softmax(logits, -1)
    probabilities = logarithms.exp()
    taken = (actions[..., None] == torch.arange(logits.shape[-1], device=logits.device)).to(logits.dtype)
    by_logarithm = _by_logarithm((taken * logarithms).sum(-1), facts, own)
    entropy = -(probabilities * logarithms).sum(-1, keepdim=True)
    factor = (own.entropy * own.share / values.shape[1])[..., None]
    by_logits = by_logarithm[..., None] * (taken - probabilities) + factor * probabilities * (logarithms + entropy)
    return by_logits, _by_value(values, facts, own)


def continuous_gradients(
    means: Tensor, spread: Tensor, values: Tensor, actions: Tensor, facts: Tensor, own: Coefficients
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of means, (P, B, K), of log-deviations, (P, 1, K), and of values, (P, B)."""
    inverse = (-spread).exp()
    distance = (actions - means) * inverse
    by_logarithm = _by_logarithm((-0.5 * distance.square() - spread - LOG_ROOT_2PI).sum(-1), facts, own)[..., None]
    by_spread = (by_logarithm * (distance.square() - 1)).sum(1, keepdim=True) - (own.entropy * own.share)[..., None]
    return by_logarithm * distance * inverse, by_spread, _by_value(values, facts, own)


def _by_logarithm(now: Tensor, facts: Tensor, own: Coefficients) -> Tensor:
    before, advantages = facts[..., 0], facts[..., 1]
    ratio = (now - before).exp()
    clipped = torch.minimum(torch.maximum(ratio, 1 - own.clip), 1 + own.clip)
    gain = ratio * advantages
    return torch.where(gain > clipped * advantages, 0.0, gain) * (-own.share / now.shape[1])


def _by_value(values: Tensor, facts: Tensor, own: Coefficients) -> Tensor:
    targets, before = facts[..., 2], facts[..., 3]
    change, miss = values - before, values - targets
    near = before + torch.minimum(torch.maximum(change, -own.clip), own.clip)
    # Inside the clip the two errors are the same, but for rounding.
    held = (own.value_clip > 0) & (change.abs() > own.clip) & ((near - targets).square() > miss.square())
    return torch.where(held, 0.0, miss) * (own.vf_coef * own.share / values.shape[1])
