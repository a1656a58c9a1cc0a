"""Epochs of PPO for all members, or only for those that have epochs left.

| symbol | meaning |
|---|---|
| A | members |
| P | members that learn in an epoch |
| M | transitions of a member's rollout |
| C | chunks of an epoch: the gradients of C / minibatches chunks make one step of the optimizer |
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from popbandits_experiments.batched.brains import Brains
from popbandits_experiments.batched.objective import Coefficients, continuous_gradients, discrete_gradients
from popbandits_experiments.batched.optimizers import MINIBATCHES, BatchedOptimizer
from popbandits_experiments.cuda_graphs import Replayed

_NUMBERS = ("one_minus_gamma", "gae_lambda", "clip", "entropy", "vf_coef")
SETTINGS = (*_NUMBERS, "epochs", "minibatches", "value_clip", "advantages")
"""Hyperparameters of members; choices are numbered."""
ADVANTAGES = ("minibatch", "rollout", "none")
"""How advantages are normalised."""


class Learners:
    """Members that learn together: weights, optimizers and hyperparameters, at fixed addresses."""

    def __init__(self, brains: Brains):
        members, device = len(brains.flat), brains.flat.device
        self.brains, self.optimizer = brains, BatchedOptimizer(brains.flat)
        self.table = torch.zeros(len(SETTINGS), members, device=device)
        self.own = dict(zip(SETTINGS, self.table, strict=True))
        """Hyperparameters by name, (A,) each."""
        self.due = torch.zeros(MINIBATCHES[-1], members, 1, dtype=torch.bool, device=device)
        """Chunks after which a member's optimizer steps, (C, A, 1)."""
        self._learnt = (brains.flat, self.optimizer.first, self.optimizer.second, self.optimizer.steps)
        self._given = (self.table, self.due, self.optimizer.rows)

    @torch.no_grad()
    def load(self, whole: "Learners", who: Tensor) -> None:
        """Copy members in."""
        for ours, theirs in zip(self._learnt, whole._learnt, strict=True):
            torch.index_select(theirs, 0, who, out=ours)
        for ours, theirs in zip(self._given, whole._given, strict=True):
            torch.index_select(theirs, 1, who, out=ours)

    @torch.no_grad()
    def store(self, whole: "Learners", who: Tensor) -> None:
        """Copy what members have learnt back."""
        for ours, theirs in zip(self._learnt, whole._learnt, strict=True):
            theirs.index_copy_(0, who, ours)


@dataclass(frozen=True)
class Transitions:
    """What is learnt from, a row for each member, at fixed addresses."""

    seen: Tensor
    """Normalised observations, (A, M, D)."""
    actions: Tensor
    """(A, T, N) or (A, T, N, K), T N = M."""
    facts: Tensor
    """Log-probability before, advantage, target and value before, (A, M, 4)."""
    order: Tensor
    """Order in which a member learns from its transitions, (A, M)."""

    @staticmethod
    def empty(brains: Brains, actions: Tensor) -> "Transitions":
        """Allocate the buffers for what a rollout with these actions holds."""
        members, rows, device = len(actions), actions.shape[1] * actions.shape[2], actions.device
        seen, facts = (torch.zeros(members, rows, size, device=device) for size in (brains.inputs, 4))
        return Transitions(seen, actions, facts, torch.zeros(members, rows, dtype=torch.int64, device=device))

    def shuffle(self, who: Tensor | None) -> list[Tensor]:
        """Return observations, actions and facts in the order of learning, of some of the members."""
        rows = (self.seen, self.actions.flatten(1, 2), self.facts)
        if who is not None:
            order = self.order[who]
            return [each[who[:, None], order] for each in rows]
        return [each.gather(1, _spread(self.order, each)) for each in rows]


def _spread(order: Tensor, rows: Tensor) -> Tensor:
    return order.view(*order.shape, *(1,) * (rows.ndim - 2)).expand(-1, -1, *rows.shape[2:])


class Epoch:
    """An epoch of a fixed number of members, one CUDA graph on a GPU."""

    def __init__(self, whole: Learners, data: Transitions, members: int, stream: "torch.cuda.Stream | None"):
        self.whole, self.data = whole, data
        self._some = members < len(whole.brains.flat)
        self.learners = Learners(whole.brains.empty(members)) if self._some else whole
        self._who = torch.zeros(members, dtype=torch.int64, device=whole.table.device)
        self._run = Replayed(self._procedure, stream)
        self._objective: Callable[..., tuple[Tensor, ...]]
        self._objective = discrete_gradients if whole.brains.discrete else continuous_gradients
        if whole.table.is_cuda:  # Compiled once for all numbers of members, as the optimizer's step.
            self._objective = torch.compile(self._objective, dynamic=True)

    def __call__(self, order: Tensor | None = None) -> None:
        """Let the first members of an order learn; nobody learns who is not due."""
        if self._some and order is not None:
            self._who.copy_(order[: len(self._who)])
        self._run()

    def _procedure(self) -> None:
        if not self._some:
            self._learn(*self.data.shuffle(None))
            return
        self.learners.load(self.whole, self._who)
        self._learn(*self.data.shuffle(self._who))
        self.learners.store(self.whole, self._who)

    def _learn(self, seen: Tensor, actions: Tensor, facts: Tensor) -> None:
        """Go once through the rollout in the given order; step the optimizers where they are due."""
        ours, chunks = self.learners, MINIBATCHES[-1]
        ours.optimizer.gradient.zero_()  # Members without epochs left are never due: their gradients would accumulate.
        facts[..., 1] = self._normalise_minibatches(facts[..., 1])
        own = {name: column[:, None] for name, column in ours.own.items()}
        share = own["minibatches"] / chunks
        coefficients = Coefficients(own["clip"], own["vf_coef"], own["entropy"], own["value_clip"], share)
        size = seen.shape[1] // chunks
        for chunk in range(chunks):
            rows = slice(chunk * size, (chunk + 1) * size)
            gradients = self._gradients(seen[:, rows], actions[:, rows], facts[:, rows], coefficients)
            ours.optimizer.step(gradients, ours.due[chunk])

    def _normalise_minibatches(self, advantages: Tensor) -> Tensor:
        """Normalise advantages, (P, M) in the order of learning, within the minibatches of members set to do so."""
        chunks = MINIBATCHES[-1]
        parts = advantages.view(len(advantages), chunks, -1)
        first = torch.arange(chunks, device=advantages.device)
        group = (first * self.learners.own["minibatches"][:, None] / chunks).floor()  # (P, C)
        together = (group[:, :, None] == group[:, None, :]).float()
        together = together / together.sum(-1, keepdim=True)
        mean = together @ parts.mean(2, keepdim=True)
        variance = together @ (parts - mean).square().mean(2, keepdim=True)
        centred = ((parts - mean) / (variance.sqrt() + 1e-8)).flatten(1)
        return torch.where((self.learners.own["advantages"] == 0)[:, None], centred, advantages)

    def _gradients(self, seen: Tensor, actions: Tensor, facts: Tensor, coefficients: Coefficients) -> list[Tensor]:
        """Compute the gradient of each member's objective, of all its weights."""
        brains = self.learners.brains
        outputs, values = brains.policy(seen), brains.value(seen)
        with torch.no_grad():
            by_output, *by_spread, by_value = self._objective(
                outputs, *brains.spread, values, actions, facts, coefficients
            )
        weights = brains.weights[: len(brains.weights) - len(by_spread)]
        return [*torch.autograd.grad((outputs, values), weights, (by_output, by_value)), *by_spread]
