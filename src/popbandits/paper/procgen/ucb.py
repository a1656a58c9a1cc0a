"""UCB-DrAC's choice of the augmentation: a bandit within one agent, that plays an arm a rollout."""

from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Any


class UCB:
    """argmax_f of the mean of the last 10 returns that followed f, plus 0.1 sqrt(log N / N_f); first of equals.

    As published, counts begin at 1, so arms are first tried in turn only as far as the returns let them.

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
        """The arm for the next update."""
        self._chosen = max(self._returns, key=self._bound)
        return self._chosen

    def reward(self, mean_return: float) -> None:
        """Say what the rollout after the last update came to; before the first update there is nothing to reward."""
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
        """Everything it remembers, as JSON can hold it."""
        return {"returns": self._returns, "plays": self._plays, "total": self._total, "chosen": self._chosen}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become what `state` described."""
        self._returns = {arm: list(returns) for arm, returns in state["returns"].items()}
        self._plays = dict(state["plays"])
        self._total, self._chosen = state["total"], state["chosen"]
