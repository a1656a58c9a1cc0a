"""Adam, RMSprop and SGD for many members at once, each with its own choice and settings.

All three are one rule with different coefficients, so that members need no branches:

    g ← clip(∇) + λ w,   m ← a m + b g,   v ← c v + (1 - c) g²,   w ← w - η (m / M) / (√(v / V) + ε)

| | a | b | c | M | V | divided by √(v / V) + ε |
|---|---|---|---|---|---|---|
| adam | β₁ | 1 - β₁ | β₂ | 1 - β₁ᵗ | 1 - β₂ᵗ | yes |
| rmsprop | 0 | 1 | α | 1 | 1 | yes |
| sgd | μ | 1 | – | 1 | 1 | no |

∇ is the gradient, whose norm is clipped, λ the weight decay, η the learning rate, t the number of steps.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from popbandits.errors import ArgumentError

OPTIMIZERS = ("adam", "rmsprop", "sgd")
CHILDREN = {"adam": ("beta1", "keep"), "rmsprop": ("smoothing", "smooth"), "sgd": ("momentum", "keep")}
"""Hyperparameter that only this optimizer has, and the coefficient that it sets."""
BETA2 = 0.999
EPSILON = 1e-5
MINIBATCHES = (1, 2, 4, 8, 16)
"""Allowed numbers of minibatches per epoch; the last one is also the number of chunks, C."""

COEFFICIENTS = ("lr", "keep", "take", "smooth", "correct1", "correct2", "divide", "max_grad_norm", "weight_decay")
"""Coefficients of a member: η, a, b, c, β₁ and β₂ of the corrections (0 for none), whether to divide, the clip, λ."""


def coefficients(config: Mapping[str, Any]) -> dict[str, float]:
    """Compute the coefficients of a configuration: lr, optimizer, and beta1, smoothing or momentum.

    Without max_grad_norm nothing is clipped; without weight_decay nothing decays.
    """
    match config["optimizer"]:
        case "adam":
            beta1 = config.get("beta1", 0.9)
            own = {"keep": beta1, "take": 1 - beta1, "smooth": BETA2, "correct1": beta1, "correct2": BETA2}
        case "rmsprop":
            own = {"keep": 0.0, "take": 1.0, "smooth": config.get("smoothing", 0.99)}
        case "sgd":
            own = {"keep": config.get("momentum", 0.0), "take": 1.0, "smooth": 0.0, "divide": 0.0}
        case other:
            raise ArgumentError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {other!r}")
    common = {"lr": config["lr"], "correct1": 0.0, "correct2": 0.0, "divide": 1.0}
    optional = {"max_grad_norm": float("inf"), "weight_decay": 0.0}
    return {**common, **{name: config.get(name, default) for name, default in optional.items()}, **own}


def minibatch_ends(minibatches: Tensor) -> Tensor:
    """Mark the chunks of an epoch that end a minibatch of each member, (C, A, 1), from its number of minibatches, (A,).

    >>> minibatch_ends(torch.tensor([1.0, 4.0])).squeeze(-1).sum(0)
    tensor([1, 4])
    """
    chunks = MINIBATCHES[-1]
    last = torch.arange(1, chunks + 1, device=minibatches.device)[:, None]
    return (last * minibatches % chunks == 0)[..., None]


class BatchedOptimizer:
    """Update flat weights (A, P); every member has its own state."""

    def __init__(self, weights: Tensor):
        members = len(weights)
        self.weights = weights
        self.first, self.second = torch.zeros_like(weights), torch.zeros_like(weights)
        self.gradient = torch.zeros_like(weights)
        """Sum over the chunks since the last step; zero at the end of an epoch."""
        self.steps = torch.zeros(members, 1, device=weights.device)
        self.kind = torch.zeros(members, dtype=torch.int64, device=weights.device)
        """Index of the optimizer that the moments belong to; zero moments suit any optimizer."""
        self.rows = torch.zeros(len(COEFFICIENTS), members, 1, device=weights.device)
        """All coefficients, (coefficients, A, 1)."""
        self.settings: dict[str, Tensor] = dict(zip(COEFFICIENTS, self.rows, strict=True))
        """Coefficients by name, (A, 1); their addresses do not change."""
        # Compiled, a step takes a third of the time: two dozen passes over the weights become three. Once for all
        # numbers of members.
        self._step = torch.compile(_accumulate_and_step, dynamic=True) if weights.is_cuda else _accumulate_and_step

    @property
    def state(self) -> dict[str, Tensor]:
        """Tensors of a checkpoint by name, a row for each member; all start at 0."""
        return {"first": self.first, "second": self.second, "steps": self.steps, "kind": self.kind}

    def configure(self, configs: Sequence[Mapping[str, Any]]) -> None:
        """Set the coefficients of an interval; drop the moments of another optimizer."""
        rows = [coefficients(config) for config in configs]
        self.rows.copy_(torch.tensor([[[row[name]] for row in rows] for name in COEFFICIENTS]))
        kind = torch.tensor([OPTIMIZERS.index(config["optimizer"]) for config in configs], device=self.kind.device)
        same = (kind == self.kind)[:, None]
        self.gradient.zero_()  # A non-finite chunk may have left something.
        for moment in (self.first, self.second, self.steps):
            moment.copy_(torch.where(same, moment, 0.0))
        self.kind.copy_(kind)

    def applied(self) -> list[dict[str, Any]]:
        """Return each member's settings, read from where they are used and named as in a configuration."""
        own = {name: tensor.flatten().tolist() for name, tensor in self.settings.items()}
        found = []
        for i, kind in enumerate(self.kind.tolist()):
            child, coefficient = CHILDREN[OPTIMIZERS[kind]]
            common = {name: own[name][i] for name in ("lr", "max_grad_norm")}
            found.append({**common, "optimizer": OPTIMIZERS[kind], child: own[coefficient][i]})
        return found

    def step(self, gradients: Sequence[Tensor], due: Tensor) -> None:
        """Add the gradients of a chunk, (A, ...) each; then step the members that are due, (A, 1).

        A member whose gradient is not finite keeps its weights.
        """
        state = (self.weights, self.gradient, self.first, self.second, self.steps)
        with torch.no_grad():
            self._step(gradients, due, state, tuple(self.settings.values()))


def _accumulate_and_step(
    gradients: Sequence[Tensor], due: Tensor, state: Sequence[Tensor], settings: Sequence[Tensor]
) -> None:
    """Apply the rule of the module's docstring in place to the members that are due."""
    weights, gradient, first, second, steps = state
    lr, keep, take, smooth, correct1, correct2, divide, max_grad_norm, weight_decay = settings
    summed = gradient + torch.cat([part.flatten(1) for part in gradients], dim=1)
    gradient.copy_(torch.where(due, 0.0, summed))
    norm = torch.linalg.vector_norm(summed, dim=1, keepdim=True)
    now = due & norm.isfinite()
    clipped = torch.where(now, summed * (max_grad_norm / (norm + 1e-6)).clamp(max=1.0), 0.0)
    decayed = clipped + weight_decay * weights
    m = keep * first + take * decayed
    v = smooth * second + (1 - smooth) * decayed.square()
    steps += now
    taken = steps.clamp(min=1)
    scale = (v / (1 - correct2**taken)).sqrt() + EPSILON
    change = lr / (1 - correct1**taken) * m / torch.where(divide > 0, scale, 1.0)
    weights.sub_(torch.where(now, change, 0.0))
    first.copy_(torch.where(now, m, first))
    second.copy_(torch.where(now, v, second))
