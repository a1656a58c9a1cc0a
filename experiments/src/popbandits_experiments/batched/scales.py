"""Running means and deviations, a row for each member."""

import torch
from torch import Tensor


class RunningScale:
    """Running mean and deviation of each member's data; computed in float64, applied in float32.

    It starts as if one value had been seen, at a distance of 1 from the mean 0, so the deviation is never 0.
    """

    def __init__(self, members: int, size: int, device: torch.device):
        self.count = torch.ones(members, 1, dtype=torch.float64, device=device)
        self.mean = torch.zeros(members, size, dtype=torch.float64, device=device)
        self.squares = torch.ones(members, size, dtype=torch.float64, device=device)
        self._centre = torch.zeros(members, 1, size, device=device)
        self._inverse = torch.ones(members, 1, size, device=device)

    @property
    def state(self) -> dict[str, Tensor]:
        """Tensors of a checkpoint by name, a row for each member."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def update(self, rows: Tensor) -> None:
        """Add rows, (A, any number, size)."""
        added = rows.shape[1]
        mean = rows.mean(1, dtype=torch.float64)
        squares = (rows - mean[:, None].to(rows.dtype)).square().sum(1, dtype=torch.float64)
        distance = mean - self.mean
        total = self.count + added
        self.squares += squares + distance.square() * (self.count * added / total)
        self.mean += distance * (added / total)
        self.count.copy_(total)
        self.refresh()

    def refresh(self) -> None:
        """Recompute the float32 mean and deviation from the state, after it was loaded or copied."""
        self._centre.copy_(self.mean[:, None])
        self._inverse.copy_((self.squares / self.count).rsqrt()[:, None])

    def shrink(self, rows: Tensor) -> Tensor:
        """Divide rows, (A, any number, size), by the deviation."""
        return rows * self._inverse

    def normalise(self, rows: Tensor) -> Tensor:
        """Centre rows, (A, any number, size), divide them by the deviation and clip them to [-10, 10]."""
        return self.shrink(rows - self._centre).clamp_(-10, 10)
