"""PPO whose members also learn from the rollouts of the other members of their population.

The loss of SAPG (Singla et al. 2024, "SAPG: Split and aggregate policy gradients"), for one leader or, as in
shared-experience actor-critic (SEAC; Christianos et al. 2020), for every member. Environment steps stay the same.

| symbol | meaning |
|---|---|
| i, j | a member, and another member of its population, which acted |
| G | members of a population; its members lie next to each other |
| M | transitions of a member's rollout |
| πᵢ, πᵢ⁰ | policy of i now, and when the rollout was made |
| Vᵢ, Vᵢ⁰ | critic of i now, and when the rollout was made |
| ε, c | clip and vf_coef of i |

Member i minimises its own PPO loss (`learning.py`) plus the mean, over a sample of the others' transitions
(s, a, r, s'), of

    L(i, j) = -min(ρ Â, clip(ρ, w (1 - ε), w (1 + ε)) Â) + c w (Vᵢ(s) - R)² / 2                          (1)
    ρ = w πᵢ(a | s) / πᵢ⁰(a | s),   w = min(1, πᵢ⁰(a | s) / πⱼ⁰(a | s))                                  (2)
    R = r + γᵢ Vᵢ⁰(s'), without Vᵢ⁰(s') where s' is terminal,   Â = R - Vᵢ⁰(s)                           (3)

Where w < 1, ρ is πᵢ / πⱼ⁰, clipped around its value at the start, as in SAPG. Every epoch samples M transitions of the
(G - 1) M, so that the others' transitions count as much as the member's own. The entropy is that of own states.

Paper: SAPG's weights have no bound, and its critic's error has no weight. Here: w is at most 1, as in V-trace (Espeholt
et al. 2018), and weighs the critic's error too, as in SEAC, because members have hyperparameters of their own and their
policies can be far apart.

A member that diverged shares nothing: w = 0 for transitions that are not finite.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from popbandits.errors import ArgumentError
from popbandits_experiments.batched import SHARING, Sharing
from popbandits_experiments.batched.learning import ChunkLoss, Epoch, Learners, Transitions
from popbandits_experiments.batched.ppo import BatchedPPO, Settings
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.batched.rollouts import World


class SharingPPO(BatchedPPO):
    """Populations of PPO agents that share experience, as a batched agent."""

    def __init__(
        self,
        seeds: Sequence[int],
        world: World,
        settings: Settings,
        device: str | torch.device = "cpu",
        size: int | None = None,
        sharing: Sharing = "all",
    ):
        """Make populations of `size` members, neighbours in `seeds`; one population of them all if it is None."""
        members = len(seeds)
        size = members if size is None else size
        if size < 2 or members % size:
            raise ArgumentError(f"size must be at least 2 and divide the {members} members, got {size}")
        if sharing not in SHARING:
            raise ArgumentError(f"sharing must be one of {', '.join(SHARING)}, got {sharing!r}")
        self.size = size
        member = torch.arange(members, device=device)
        step = torch.arange(1, size, device=device)
        self._others = member[:, None] - member[:, None] % size + (member[:, None] + step) % size  # (A, G - 1)
        self._listens = torch.ones_like(member, dtype=torch.bool) if sharing == "all" else member % size == 0
        super().__init__(seeds, world, settings, device)

    def _make_epochs(self, stream: "torch.cuda.Stream | None") -> dict[int, Epoch]:
        """Allocate the buffers of the others' transitions, and make the epochs."""
        rows = (self.size - 1) * self._order.shape[1]
        self._shared = Transitions(
            self._seen.new_zeros(len(self._order), rows, self.brains.inputs),
            torch.zeros_like(self.rollout.actions[self._others].flatten(2, 3)),
            # Log-probability before, advantage, target, value before, log w.
            self._facts.new_zeros(len(self._order), rows, 5),
            torch.zeros_like(self._order),
        )
        return super()._make_epochs(stream)

    def _make_epoch(
        self, learners: Learners, data: Transitions, size: int, stream: "torch.cuda.Stream | None"
    ) -> Epoch:
        return SharingEpoch(learners, data, self._shared, size, stream)

    def _draw_order(self, orders: Streams, epoch: int) -> None:
        """Draw the order of a member's own transitions, and a sample of the others'."""
        super()._draw_order(orders, epoch)
        # From other streams: what a member draws for itself must not depend on whether it shares.
        drawn = orders.fork(epoch).uniform(self._shared.facts.shape[1]).argsort(dim=1)
        self._shared.order.copy_(drawn[:, : self._order.shape[1]])

    @torch.no_grad()
    def _prepare_rollout(self) -> None:
        """Prepare a member's own rollout, then the others' as this member sees and values them."""
        brains, out, shared = self.brains, self.rollout, self._shared
        # Before the scales are updated, as for a member's own transitions.
        seen = brains.see(self._of_others(out.observations.flatten(1, 2)))
        following = brains.value(brains.see(self._of_others(out.following.flatten(1, 2))))
        super()._prepare_rollout()
        actions = self._of_others(out.actions.flatten(1, 2))
        before, _ = brains.judge(brains.policy(seen), actions)
        values = brains.value(seen)
        rewards = self._of_others(out.rewards.flatten(1, 2))
        if not self.settings.raw:
            rewards = brains.rewarded.shrink(rewards[..., None]).squeeze(-1)
        goes_on = ~self._of_others(out.terminated.flatten(1, 2))
        targets = rewards + self._gamma * torch.where(goes_on, following, 0.0)  # (3)
        log_weights = (before - self._of_others(self._facts[..., 0])).clamp(max=0.0)  # (2)
        facts = torch.stack([before, targets - values, targets, values, log_weights], -1)
        valid = facts.isfinite().all(-1) & seen.isfinite().all(-1)
        facts = torch.where(valid[..., None], facts, 0.0)
        advantages = facts[..., 1]
        centred = (advantages - advantages.mean(1, keepdim=True)) / (
            advantages.std(1, keepdim=True, correction=0) + 1e-8
        )
        facts[..., 1] = torch.where((self._normalisation == 1)[:, None], centred, advantages)
        facts[..., 4].masked_fill_(~(valid & self._listens[:, None]), -torch.inf)
        shared.facts.copy_(facts)
        shared.seen.copy_(torch.where(valid[..., None], seen, 0.0))
        actions = actions if brains.discrete else torch.where(valid[..., None], actions, 0.0)
        shared.actions.copy_(actions.view_as(shared.actions))

    def _of_others(self, rows: Tensor) -> Tensor:
        """Gather the rows of the other members of each member's population: (A, M, ...) to (A, (G - 1) M, ...)."""
        return rows[self._others].flatten(1, 2)


class SharingEpoch(Epoch):
    """An epoch whose chunks hold as many transitions of the others as of the member itself."""

    def __init__(
        self,
        whole: Learners,
        data: Transitions,
        shared: Transitions,
        members: int,
        stream: "torch.cuda.Stream | None",
    ):
        self.shared = shared
        super().__init__(whole, data, members, stream)

    def _losses(self, who: Tensor | None) -> ChunkLoss:
        own, others = super()._losses(who), self._chunked(self.shared, who, self._shared_loss)
        return lambda chunk: own(chunk) + others(chunk)

    def _shared_loss(self, seen: Tensor, actions: Tensor, facts: Tensor) -> Tensor:
        """Compute the mean of (1) for each member, (P,)."""
        own, brains = self.learners.own, self.learners.brains
        before, advantages, targets, values_before, log_weights = facts.unbind(-1)
        now, _ = brains.judge(brains.policy(seen), actions)
        clip, weights = own["clip"][:, None], log_weights.exp()
        ratio = (now - before + log_weights).exp()
        clipped = torch.minimum(torch.maximum(ratio, weights * (1 - clip)), weights * (1 + clip))
        gain = torch.minimum(ratio * advantages, clipped * advantages).mean(1)
        miss = (weights * self._miss(seen, targets, values_before)).mean(1)
        loss: Tensor = -gain + own["vf_coef"] * miss / 2
        return loss
