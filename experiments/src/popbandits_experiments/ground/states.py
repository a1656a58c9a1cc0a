"""Earlier states of members, to which runs return: paused trials, and what `tune` would have as checkpoints."""

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from popbandits.history import Key
from popbandits_experiments.ground.grounds import Agents


class Kept:
    """States by population and by (member, round) of the interval that ended in them; they stay on the device."""

    def __init__(self, agents: Agents, size: int):
        self._agents, self._size = agents, size
        members = len(next(iter(agents.state.values())))
        self._rows = [dict[Key, int]() for _ in range(members // size)]
        self._free: list[int] = []
        self._stored: dict[str, Tensor] = {
            name: tensor.new_zeros(0, *tensor.shape[1:]) for name, tensor in agents.state.items()
        }

    def __len__(self) -> int:
        return sum(map(len, self._rows))

    @torch.no_grad()
    def keep(self, round_: int, indices: Sequence[int]) -> None:
        """Remember the members at these indices, which have completed a round."""
        if len(self._free) < len(indices):
            self._grow(len(indices))
        sources: dict[int, int] = {}
        for index in indices:
            population, member = divmod(index, self._size)
            row = self._rows[population][member, round_] = self._free.pop()
            sources[row] = index
        for name, tensor in self._agents.state.items():
            self._stored[name][list(sources)] = tensor[list(sources.values())]

    def forget(self, population: int, needed: Collection[Key]) -> None:
        """Forget the states of a population that are not needed."""
        rows = self._rows[population]
        for key in rows.keys() - set(needed):
            self._free.append(rows.pop(key))

    @torch.no_grad()
    def restore(self, parents: Mapping[int, Key]) -> None:
        """Restore states to members, by index, from parents of their populations, all at once."""
        rows = [self._rows[index // self._size][parent] for index, parent in parents.items()]
        for name, tensor in self._agents.state.items():
            tensor[list(parents)] = self._stored[name][rows]

    def _grow(self, least: int) -> None:
        """Make room for half as many states again, and for no fewer than `least`."""
        before = len(next(iter(self._stored.values())))
        added = max(least, before // 2)
        for name, tensor in self._stored.items():
            self._stored[name] = torch.cat([tensor, tensor.new_zeros(added, *tensor.shape[1:])])
        self._free += range(before + added - 1, before - 1, -1)
