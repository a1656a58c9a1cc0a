"""A selection beside truncation, with a setting of its own, for tests of how selections are named and recorded."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from popbandits.basics.typing import IntArray
from popbandits.history import History
from popbandits.methods import SELECTIONS
from popbandits.selection import Picks, Selection, Truncation
from popbandits.selection.selection import stay


@dataclass(frozen=True)
class Calm(Selection):
    """Truncation that lets everyone train for the first rounds: a share of all below 1, or a number."""

    earlier: ClassVar[Mapping[str, Any]] = {"wait": 0.0}

    quantile: float = 0.25
    wait: float = 0.25

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        waits = self.planned(history.rounds or 10).wait
        if history.member_states().finished.mean() < waits:
            return stay(history, members)
        return Truncation(self.quantile).select(history, members, rng)

    def planned(self, rounds: int) -> "Calm":
        return replace(self, wait=self.wait if self.wait >= 1 else math.ceil(self.wait * rounds))


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it known by a name, as an entry point would."""
    monkeypatch.setitem(SELECTIONS, "calm", f"{__name__}:Calm")
