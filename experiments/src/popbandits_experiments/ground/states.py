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
        rows = []
        for index in indices:
            population, member = divmod(index, self._size)
            rows.append(self._free.pop())
            self._rows[population][member, round_] = rows[-1]
        sources, targets = self._tensor(indices), self._tensor(rows)
        for name, tensor in self._agents.state.items():
            self._stored[name][targets] = tensor[sources]

    def forget(self, population: int, needed: Collection[Key]) -> None:
        """Forget the states of a population that are not needed."""
        rows = self._rows[population]
        for key in rows.keys() - set(needed):
            self._free.append(rows.pop(key))

    @torch.no_grad()
    def restore(self, parents: Mapping[int, Key]) -> None:
        """Restore states to members, by index, from parents of their populations, all at once."""
        rows = [self._rows[index // self._size][parent] for index, parent in parents.items()]
        sources, targets = self._tensor(rows), self._tensor(list(parents))
        for name, tensor in self._agents.state.items():
            tensor[targets] = self._stored[name][sources]

    def _tensor(self, indices: Sequence[int]) -> Tensor:
        """Move indices to the device once for all tensors."""
        device = next(iter(self._stored.values())).device
        return torch.tensor(list(indices), dtype=torch.int64, device=device)

    def _grow(self, least: int) -> None:
        """Make room for half as many states again, and for no fewer than `least`."""
        before = len(next(iter(self._stored.values())))
        added = max(least, before // 2)
        for name, tensor in self._stored.items():
            self._stored[name] = torch.cat([tensor, tensor.new_zeros(added, *tensor.shape[1:])])
        self._free += range(before + added - 1, before - 1, -1)
