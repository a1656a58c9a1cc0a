"""Earlier states of members, to which a population returns after failures, like the checkpoints of `tune`."""

import math
from collections.abc import Sequence

import torch

from popbandits.history import Key
from popbandits_experiments.ground.grounds import Agents


class Kept:
    """Every member's last completed state, and each population's best one; no others are needed.

    Rows are members, then populations.
    """

    def __init__(self, agents: Agents, size: int):
        self._agents, self._size = agents, size
        members = len(next(iter(agents.state.values())))
        self._best = [-math.inf] * (members // size)
        self._keys: list[Key | None] = [None] * (members + len(self._best))
        self._rows = {
            name: tensor.new_zeros(len(self._keys), *tensor.shape[1:]) for name, tensor in agents.state.items()
        }

    @torch.no_grad()
    def keep(self, round_: int, scores: Sequence[float]) -> None:
        """Remember the members that have completed a round with a score."""
        sources: dict[int, int] = {}
        for index, score in enumerate(scores):
            population, member = divmod(index, self._size)
            if not math.isfinite(score):
                continue
            sources[index] = index
            self._keys[index] = member, round_
            if score >= self._best[population]:  # The last one wins a tie, as in `History.best`.
                self._best[population] = score
                sources[len(scores) + population] = index
                self._keys[len(scores) + population] = member, round_
        for name, tensor in self._agents.state.items():
            self._rows[name][list(sources)] = tensor[list(sources.values())]

    @torch.no_grad()
    def restore(self, index: int, parent: Key) -> None:
        """Restore the state of a parent of its population to a member."""
        population, first = index // self._size, index - index % self._size
        held = (first + parent[0], len(self._keys) - len(self._best) + population)
        (row, *_) = [row for row in held if self._keys[row] == parent]
        for name, tensor in self._agents.state.items():
            tensor[index] = self._rows[name][row]
