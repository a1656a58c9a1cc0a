"""UCB-DrAC's choice of the augmentation: a bandit within one agent, which plays one arm per rollout."""

from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Any


class UCB:
    """A bandit that plays argmax_f of f's last 10 returns' mean + 0.1 sqrt(log N / N_f); the first one wins a tie.

    As published, counts start at 1, so it need not try every arm once before it repeats one.

    >>> bandit = UCB(["crop", "flip"])
    >>> bandit.choose()
    'crop'
    >>> bandit.reward(-1.0)
    >>> bandit.choose()
    'flip'
    """

    WINDOW = 10
    EXPLORATION = 0.1

    def __init__(self, arms: Sequence[str]) -> None:
        self._returns: dict[str, list[float]] = {arm: [] for arm in arms}
        self._plays = dict.fromkeys(arms, 1)
        self._total = 1
        self._chosen: str | None = None

    def choose(self) -> str:
        """Choose the arm for the next update."""
        self._chosen = max(self._returns, key=self._bound)
        return self._chosen

    def reward(self, mean_return: float) -> None:
        """Record the mean return of the rollout after the last update; do nothing before the first update."""
        if self._chosen is None:
            return
        self._total += 1
        self._plays[self._chosen] += 1
        self._returns[self._chosen] = [*self._returns[self._chosen], mean_return][-self.WINDOW :]

    def _bound(self, arm: str) -> float:
        recent = self._returns[arm]
        mean = sum(recent) / len(recent) if recent else 0.0
        return mean + self.EXPLORATION * sqrt(log(self._total) / self._plays[arm])

    def state(self) -> dict[str, Any]:
        """Return the state as JSON-compatible values."""
        return {"returns": self._returns, "plays": self._plays, "total": self._total, "chosen": self._chosen}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._returns = {arm: list(returns) for arm, returns in state["returns"].items()}
        self._plays = dict(state["plays"])
        self._total, self._chosen = state["total"], state["chosen"]
