"""Epochs of PPO for all members, or only for those that have epochs left.

| symbol | meaning |
|---|---|
| A | members |
| P | members that learn in an epoch |
| M | transitions of a member's rollout |
| C | chunks of an epoch: the gradients of C / minibatches chunks make one step of the optimizer |
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from popbandits_experiments.batched.brains import Brains
from popbandits_experiments.batched.objective import Coefficients, continuous_gradients, discrete_gradients
from popbandits_experiments.batched.optimizers import MINIBATCHES, BatchedOptimizer
from popbandits_experiments.cuda_graphs import Replayed


@dataclass(frozen=True)
class Learners:
    """Members that learn together: weights, optimizers and hyperparameters, at fixed addresses."""

    brains: Brains
    optimizer: BatchedOptimizer
    table: Tensor
    """Hyperparameters, (names, A)."""
    names: tuple[str, ...]
    normalisation: Tensor
    """Index of how advantages are normalised, (A,)."""
    due: Tensor
    """Chunks after which a member's optimizer steps, (C, A, 1)."""

    @property
    def own(self) -> dict[str, Tensor]:
        """Hyperparameters by name, (A,) each."""
        return dict(zip(self.names, self.table, strict=True))

    def empty(self, members: int) -> "Learners":
        """Allocate as much for another number of members."""
        brains = self.brains.empty(members)

        def part(tensor: Tensor, dim: int) -> Tensor:
            return torch.zeros_like(tensor.narrow(dim, 0, members), memory_format=torch.contiguous_format)

        rest = part(self.table, 1), self.names, part(self.normalisation, 0), part(self.due, 1)
        return Learners(brains, BatchedOptimizer(brains.flat), *rest)

    @torch.no_grad()
    def load(self, whole: "Learners", who: Tensor) -> None:
        """Copy members in."""
        for ours, theirs in zip(self._learnt, whole._learnt, strict=True):
            torch.index_select(theirs, 0, who, out=ours)
        pairs = ((self.table, whole.table), (self.due, whole.due), (self.optimizer.rows, whole.optimizer.rows))
        for ours, theirs in pairs:
            torch.index_select(theirs, 1, who, out=ours)
        torch.index_select(whole.normalisation, 0, who, out=self.normalisation)

    @torch.no_grad()
    def store(self, whole: "Learners", who: Tensor) -> None:
        """Copy what members have learnt back."""
        for ours, theirs in zip(self._learnt, whole._learnt, strict=True):
            theirs.index_copy_(0, who, ours)

    @property
    def _learnt(self) -> tuple[Tensor, ...]:
        return self.brains.flat, self.optimizer.first, self.optimizer.second, self.optimizer.steps


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

    def shuffle(self, who: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return observations, actions and facts in the order of learning, of some of the members."""
        rows = (self.seen, self.actions.flatten(1, 2), self.facts)
        if who is not None:
            order = self.order[who]
            seen, actions, facts = (each[who[:, None], order] for each in rows)
            return seen, actions, facts
        seen, actions, facts = (each.gather(1, _spread(self.order, each)) for each in rows)
        return seen, actions, facts


def _spread(order: Tensor, rows: Tensor) -> Tensor:
    return order.view(*order.shape, *(1,) * (rows.ndim - 2)).expand(-1, -1, *rows.shape[2:])


class Epoch:
    """An epoch of a fixed number of members, one CUDA graph on a GPU."""

    def __init__(self, whole: Learners, data: Transitions, members: int, stream: "torch.cuda.Stream | None"):
        self.whole, self.data = whole, data
        self._some = members < len(whole.brains.flat)
        self.learners = whole.empty(members) if self._some else whole
        self._who = torch.zeros(members, dtype=torch.int64, device=whole.table.device)
        self._run = Replayed(self._procedure, stream)
        # Compiled once for all numbers of members, as the optimizer's step.
        compiled = whole.table.is_cuda
        self._discrete = torch.compile(discrete_gradients, dynamic=True) if compiled else discrete_gradients
        self._continuous = torch.compile(continuous_gradients, dynamic=True) if compiled else continuous_gradients

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
        coefficients = self._coefficients()
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
        return torch.where((self.learners.normalisation == 0)[:, None], centred, advantages)

    def _coefficients(self) -> Coefficients:
        own = {name: column[:, None] for name, column in self.learners.own.items()}
        share = own["minibatches"] / MINIBATCHES[-1]
        return Coefficients(own["clip"], own["vf_coef"], own["entropy"], own["value_clip"], share)

    def _gradients(self, seen: Tensor, actions: Tensor, facts: Tensor, coefficients: Coefficients) -> list[Tensor]:
        """Compute the gradient of each member's objective, of all its weights."""
        brains = self.learners.brains
        outputs, values = brains.policy(seen), brains.value(seen)
        with torch.no_grad():
            if brains.discrete:
                by_output, by_value = self._discrete(outputs, values, actions, facts, coefficients)
                spread: list[Tensor] = []
            else:
                by_output, by_spread, by_value = self._continuous(
                    outputs, brains.weights[-1], values, actions, facts, coefficients
                )
                spread = [by_spread]
        weights = brains.weights[: len(brains.weights) - len(spread)]
        return [*torch.autograd.grad((outputs, values), weights, (by_output, by_value)), *spread]
