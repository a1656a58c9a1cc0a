"""What is asked of a member, and what came of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from popbandits.errors import HistoryError

Config = dict[str, Any]
"""A configuration: native Python values, only the active hyperparameters; nested if the space was written nested."""

Key = tuple[int, int]
"""(member, round): names an interval of training and the checkpoint at its end."""

Status = Literal["completed", "failed"]


@dataclass(frozen=True)
class Assignment:
    """One interval of training to do: load `parent`'s checkpoint, then train with `config`."""

    member: int
    round: int
    config: Config
    parent: Key | None = None
    """Whose checkpoint to load first: the member's own last one if it goes on, another's after an exploit, None to
    start afresh."""
    decision: Mapping[str, Any] = field(default_factory=dict)
    """How the explorer came to this configuration; empty for one that is carried on."""

    @property
    def key(self) -> Key:
        """(member, round)."""
        return self.member, self.round


@dataclass(frozen=True, eq=False)
class Observation:
    """One interval of training that was done.

    >>> before = Observation(0, 0, {"lr": 0.1}, score=1.0)
    >>> Observation(1, 1, {"lr": 0.2}, parent=(0, 0), score_before=1.0, score=1.5).change
    0.5
    """

    member: int
    round: int
    config: Config
    parent: Key | None = None
    score_before: float = math.nan
    """The parent's score, since its weights were loaded; NaN where nothing was measured before."""
    score: float = math.nan
    """As it was told (in the user's own direction); NaN if the interval failed."""
    steps: float | None = None
    """Budget spent in the interval, where the user told it."""
    seconds: float | None = None
    status: Status = "completed"
    metrics: Mapping[str, Any] = field(default_factory=dict)
    decision: Mapping[str, Any] = field(default_factory=dict)
    """What the explorer recorded when it chose `config`: fitted hyperparameters, a fallback and its reason."""

    def __post_init__(self) -> None:
        if self.member < 0 or self.round < 0:
            raise HistoryError(f"member and round count from 0, got member {self.member}, round {self.round}")
        if self.status not in ("completed", "failed"):
            raise HistoryError(f"status must be 'completed' or 'failed', got {self.status!r}")
        if self.status == "completed" and not math.isfinite(self.score):
            raise HistoryError(f"a completed observation needs a finite score, got {self.score}; mark it as failed")

    @property
    def key(self) -> Key:
        """(member, round)."""
        return self.member, self.round

    @property
    def change(self) -> float:
        """y = F_after - F_before; NaN if either is unknown."""
        return self.score - self.score_before

    @property
    def failed(self) -> bool:
        """Whether the interval ended without a usable score."""
        return self.status == "failed"

    @property
    def fallback(self) -> str | None:
        """Why the explorer sampled instead of using its model; None if it did not."""
        reason = self.decision.get("fallback")
        return None if reason is None else str(reason)

    def __eq__(self, other: object) -> bool:
        """Field by field, two NaNs being the same."""
        if not isinstance(other, Observation):
            return NotImplemented
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return all(a == b or (a != a and b != b) for a, b in pairs)
