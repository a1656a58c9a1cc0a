"""Members as rows of tensors, which are copied, saved, loaded and reset by index."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from popbandits_experiments.batched.random import Streams, derive_keys, keys_of

_FILE = "member.pt"


class MemberRows(ABC):
    """Base of batched agents: everything that does not depend on the learning algorithm.

    A subclass names its tensors (`_rows`) and draws their initial values (`_fresh`).
    """

    def __init__(self, members: int, device: str | torch.device):
        self.device = torch.device(device)
        self._keys = torch.zeros(members, dtype=torch.int64, device=self.device)
        self._trained = torch.zeros(members, dtype=torch.int64, device=self.device)
        """Streams of random numbers used up by each member, including those of its ancestors."""
        self._labels: tuple[Tensor, ...] = ()  # Labels of the next interval's random numbers.

    @abstractmethod
    def _rows(self) -> dict[str, Tensor]:
        """Return the learnt tensors by name, a row for each member."""

    @abstractmethod
    def _fresh(self, keys: Tensor) -> Mapping[str, Tensor]:
        """Draw initial values, a row for each key; tensors that are not named start at 0."""

    @property
    def state(self) -> dict[str, Tensor]:
        """All tensors of a checkpoint by name, a row for each member."""
        return {**self._rows(), "key": self._keys, "trained": self._trained}

    @torch.no_grad()
    def _start(self, members: Sequence[int], seeds: Sequence[int]) -> None:
        """Set members to their state before any training."""
        rows = torch.tensor(list(members), device=self.device)
        keys = keys_of(seeds, self.device)
        values = {**self._fresh(keys), "key": keys}
        for name, tensor in self.state.items():
            tensor[rows] = values.get(name, torch.zeros_like(tensor[rows]))

    def reset(self, member: int, seed: int) -> None:
        """Give one member a fresh start."""
        self.reset_all([member], [seed])

    def reset_all(self, members: Sequence[int], seeds: Sequence[int]) -> None:
        """Give several members a fresh start, each with its seed; much faster than one by one on a GPU."""
        self._start(members, seeds)

    @torch.no_grad()
    def copy(self, sources: Sequence[int]) -> None:
        """Copy the state of member sources[i] to member i, all at once."""
        rows = torch.tensor(list(sources), device=self.device)
        for tensor in self.state.values():
            tensor.copy_(tensor[rows])

    def save(self, member: int, directory: Path) -> None:
        """Write a member's state."""
        state = {name: tensor[member].detach().cpu().clone() for name, tensor in self.state.items()}
        torch.save(state, directory / _FILE)

    @torch.no_grad()
    def load(self, member: int, directory: Path) -> None:
        """Restore a saved member."""
        saved = torch.load(directory / _FILE, weights_only=True)
        for name, tensor in self.state.items():
            tensor[member] = saved[name].to(self.device)

    def assigned(self, keys: Sequence[tuple[int, int]]) -> None:
        """Seed the random numbers of the next interval with each (member, round)."""
        self._labels = tuple(torch.tensor(label, device=self.device) for label in zip(*keys, strict=True))

    def _streams(self) -> Streams:
        """Make random streams that depend on how much a member has trained, and on its assignment."""
        return Streams(derive_keys(self._keys, self._trained, *self._labels))
