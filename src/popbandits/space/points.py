"""Encoded configurations as arrays."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from popbandits.basics.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Points:
    """n encoded configurations of a space with d numerical and m categorical parameters.

    | field | meaning | shape |
    |---|---|---|
    | x | numerical part in [0, 1]; NaN = inactive | (n, d) |
    | h | index of the chosen label; -1 = inactive | (n, m) |
    """

    x: FloatArray
    h: IntArray

    def __post_init__(self) -> None:
        assert self.x.ndim == self.h.ndim == 2, (self.x.shape, self.h.shape)
        assert len(self.x) == len(self.h), (self.x.shape, self.h.shape)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: slice | IntArray | BoolArray | list[int]) -> "Points":
        return Points(self.x[rows], self.h[rows])

    @staticmethod
    def concatenate(parts: Iterable["Points"]) -> "Points":
        """Join the points of all parts, in order."""
        parts = list(parts)
        return Points(np.concatenate([part.x for part in parts]), np.concatenate([part.h for part in parts]))
