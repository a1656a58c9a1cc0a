"""Advantages and losses: GAE, clipped PPO, and DrAC's regularisation.

| symbol | meaning | shape |
|---|---|---|
| T, N | steps of a rollout, environments | |
| r, V | scaled rewards; values, including the frame after the last step | (T, N), (T + 1, N) |
| π(.|s), π(.|f(s)) | policies at a clean and at the augmented frame, as logits | (B, 15) |
| α | weight of the regularisation | () |
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from popbandits.basics.typing import BoolArray, FloatArray

DISCOUNT = 0.999
GAE_DECAY = 0.95
VALUE_WEIGHT = 0.5


def lambda_returns(rewards: FloatArray, values: FloatArray, ended: BoolArray) -> FloatArray:
    """Compute λ-returns, V + GAE (T, N), without bootstrapping over the end of an episode or a time-out.

    δ_t = r_t + γ V_{t+1} (1 - end_t) - V_t,   A_t = δ_t + γ λ (1 - end_t) A_{t+1}
    """
    # On the host: on a device that others keep busy, each of so many small kernels would wait for a place.
    errors = rewards + DISCOUNT * values[1:] * ~ended - values[:-1]
    decay = DISCOUNT * GAE_DECAY * ~ended
    advantages = np.empty_like(errors)
    later = np.zeros_like(errors[0])
    for step in reversed(range(len(errors))):
        later = errors[step] + decay[step] * later
        advantages[step] = later
    return advantages + values[:-1]


def standardised(advantages: FloatArray) -> FloatArray:
    """Return advantages with mean 0 and standard deviation 1."""
    scaled: FloatArray = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-5)
    return scaled


@dataclass(frozen=True)
class Batch:
    """Records of the steps of a minibatch, (B,) each; advantages are standardised over the rollout."""

    actions: Tensor
    log_probabilities: Tensor
    values: Tensor
    returns: Tensor
    advantages: Tensor


@dataclass(frozen=True)
class Coefficients:
    """Hyperparameters of the loss, () each: range of the clipping, weights of the entropy and the regularisation."""

    clip: Tensor
    entropy: Tensor
    alpha: Tensor


def total_loss(logits: Tensor, values: Tensor, batch: Batch, coefficients: Coefficients) -> Tensor:
    """Compute PPO's loss, plus DrAC's regularisation if rows of augmented frames follow the clean ones."""
    size = len(batch.actions)
    loss = ppo_loss(logits[:size], values[:size], batch, coefficients.clip, coefficients.entropy)
    if len(logits) == size:
        return loss
    return loss + coefficients.alpha * regularisation(logits[:size], values[:size], logits[size:], values[size:])


def ppo_loss(logits: Tensor, values: Tensor, batch: Batch, clip: Tensor, entropy: Tensor) -> Tensor:
    """Compute PPO's loss, with its value loss clipped by the same ε, and the entropy bonus.

    -min(ρ A, clip(ρ, 1 ± ε) A) + 0.5 * ½ max((V - R)², (V_old ± ε - R)²) - entropy * H
    """
    log_policy = logits.log_softmax(1)
    ratio = (log_policy.gather(1, batch.actions[:, None])[:, 0] - batch.log_probabilities).exp()
    policy_loss = -torch.minimum(
        ratio * batch.advantages, torch.clamp(ratio, 1 - clip, 1 + clip) * batch.advantages
    ).mean()
    near = batch.values + torch.clamp(values - batch.values, -clip, clip)
    value_loss = 0.5 * torch.maximum((values - batch.returns) ** 2, (near - batch.returns) ** 2).mean()
    policy_entropy = -(log_policy.exp() * log_policy).sum(1).mean()
    return policy_loss + VALUE_WEIGHT * value_loss - entropy * policy_entropy


def regularisation(logits: Tensor, values: Tensor, augmented_logits: Tensor, augmented_values: Tensor) -> Tensor:
    """Compute DrAC's G_π + G_V: distances of policy and value at augmented frames from the fixed ones at clean frames.

    G_π = KL[π(.|s) || π(.|f(s))],   G_V = ½ (V(f(s)) - V(s))²
    """
    # Paper: KL[π(.|f(s)) || π(.|s)] and the whole square. Its code: -log π(ã|f(s)) with one ã drawn from π(.|s), and
    # half of the square. Here: the full sum over the actions, because it has the expected gradient of that code, from
    # which the published figures come, with less noise.
    target = logits.detach().log_softmax(1)
    divergence = (target.exp() * (target - augmented_logits.log_softmax(1))).sum(1).mean()
    return divergence + 0.5 * ((augmented_values - values.detach()) ** 2).mean()
