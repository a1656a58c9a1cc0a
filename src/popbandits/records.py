"""What is asked of a member, and what came of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from popbandits.errors import HistoryError
from popbandits.typing import is_real, is_whole

Config = dict[str, Any]
"""A configuration: native Python values, only the active hyperparameters; nested if the space was written nested."""

Key = tuple[int, int]
"""(member, round): names an interval of training and the checkpoint at its end."""

STATUSES = ("completed", "failed", "lost")
Status = Literal["completed", "failed", "lost"]
"""Lost: the checkpoint of its parent was missing or damaged, so it never trained, and says nothing of its config."""


STANDARD_ERROR = "standard_error"
"""The metric that holds the standard error of a score."""


@dataclass(frozen=True)
class Assignment:
    """One interval of training to do: load `parent`'s checkpoint, then train with `config`.

    `Population.ask` makes them.

    Args:
        member: Number of the member that trains, from 0.
        round: Number of its interval, from 0.
        config: Hyperparameters to train with.
        parent: (member, round) of the checkpoint to load first: the member's own last one, or another's after an
            exploit. None (default) to start afresh.
        decision: How the explorer came to this configuration. Default {}, for one that is carried on.
    """

    member: int
    round: int
    config: Config
    parent: Key | None = None
    decision: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """(member, round)."""
        return self.member, self.round

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, eq=False)
class Observation:
    """One interval of training that was done.

    >>> before = Observation(0, 0, {"lr": 0.1}, score=1.0)
    >>> Observation(1, 1, {"lr": 0.2}, parent=(0, 0), score_before=1.0, score=1.5).change
    0.5

    Args:
        member: Number of the member that trained, from 0.
        round: Number of its interval, from 0.
        config: Hyperparameters it trained with.
        parent: (member, round) of the checkpoint it began from. None (default) for a fresh start.
        score_before: Score of that checkpoint. Default nan, where nothing was measured before.
        score: Score at the end, as it was told. Default nan, for an interval that failed.
        steps: Budget spent, such as environment steps. None (default) if it was not told.
        seconds: Time it took. None (default) if unknown.
        status: How it ended: "completed" (default), "failed", or "lost" if the parent's checkpoint was missing or
            damaged, so that it never trained.
        metrics: Whatever else was told. Default {}.
        decision: What the explorer recorded when it chose `config`: fitted hyperparameters, a fallback and its reason.
            Default {}.
    """

    member: int
    round: int
    config: Config
    parent: Key | None = None
    score_before: float = math.nan
    score: float = math.nan
    steps: float | None = None
    seconds: float | None = None
    status: Status = "completed"
    metrics: Mapping[str, Any] = field(default_factory=dict)
    decision: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (is_whole(self.member, 0) and is_whole(self.round, 0)):
            raise HistoryError(
                f"member and round count from 0, got member {self.member!r}, round {self.round!r}; use whole numbers"
            )
        if not isinstance(self.config, dict):
            raise HistoryError(f"config must be a dict, got {self.config!r}; name its values")
        parent: Any = self.parent
        if parent is not None and (type(parent) is not tuple or [is_whole(part, 0) for part in parent] != [True, True]):
            raise HistoryError(f"parent must be (member, round) or None, got {parent!r}; count both from 0")
        if self.status not in STATUSES:
            raise HistoryError(f"status must be 'completed', 'failed' or 'lost', got {self.status!r}")
        if self.status == "completed" and not (is_real(self.score) and math.isfinite(self.score)):
            raise HistoryError(f"a completed observation needs a finite score, got {self.score!r}; mark it as failed")
        if self.failed and self.score == self.score:
            raise HistoryError(f"a {self.status} observation has no score, got {self.score!r}; leave it out")
        if self.status == "lost" and parent is None:
            raise HistoryError(
                f"what is lost is the parent's checkpoint, got {self.key} without a parent; mark it as failed"
            )
        if self.score_before == self.score_before and not (
            is_real(self.score_before) and math.isfinite(self.score_before)
        ):
            raise HistoryError(
                f"score_before must be finite, or NaN if unknown, got {self.score_before!r}; leave it out"
            )
        if self.steps is not None and not (is_real(self.steps) and 0 < self.steps < math.inf):
            raise HistoryError(f"steps must be a positive number, or None if unknown, got {self.steps!r}; leave it out")
        if self.seconds is not None and not (is_real(self.seconds) and 0 <= self.seconds < math.inf):
            raise HistoryError(f"seconds must be at least 0, or None if unknown, got {self.seconds!r}; leave it out")
        for name in ("member", "round", "score_before", "score", "steps", "seconds"):
            if isinstance(given := getattr(self, name), np.generic):  # which SQLite does not take
                object.__setattr__(self, name, given.item())
        for name in ("metrics", "decision"):
            if not isinstance(given := getattr(self, name), Mapping):
                raise HistoryError(f"{name} must be a dict, got {given!r}; name its values")
            object.__setattr__(self, name, plain(given, name))

    @property
    def key(self) -> Key:
        """(member, round)."""
        return self.member, self.round

    @property
    def change(self) -> float:
        """The score less that of its parent, y = F_after - F_before; NaN if either is unknown. All readers show it."""
        return self.score - self.score_before

    @property
    def standard_error(self) -> float | None:
        """The standard error of the score, where it was told; it is one of the metrics, so that any run can hold it."""
        told: Any = self.metrics.get(STANDARD_ERROR)
        return float(told) if is_real(told) and 0 <= told < math.inf else None

    @property
    def failed(self) -> bool:
        """Whether the interval ended without a usable score."""
        return self.status != "completed"

    @property
    def fallback(self) -> str | None:
        """Why the explorer sampled instead of using its model; None if it did not."""
        reason = self.decision.get("fallback")
        return None if reason is None else str(reason)

    def __eq__(self, other: object) -> bool:
        """Whether the same happened, field by field, two NaNs being the same; however long it took."""
        if not isinstance(other, Observation):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.name != "seconds")

    def __hash__(self) -> int:
        return hash(self.key)


def merit(observation: Observation, sign: float) -> tuple[float, int, int]:
    """Order completed observations, the best last: by score, then round, then member. `sign` is -1 if less is better.

    >>> first, second = Observation(1, 0, {}, score=0.5), Observation(0, 1, {}, score=0.5)
    >>> max(first, second, key=lambda one: merit(one, 1.0)).key
    (0, 1)
    """
    return sign * observation.score, observation.round, observation.member


def assemble(values: Mapping[str, Any]) -> Observation:
    """Make an observation of all its fields, which were checked and are plain values; they are not checked again."""
    made = object.__new__(Observation)
    made.__dict__.update(values)
    return made


@dataclass(frozen=True)
class Decision:
    """What was decided for a member, and from what. A `View` is given those of every `ask`.

    Args:
        assignment: What the member trains next.
        known: Length of the history it was decided from.
        training: What the explorer was told to be in training, the last ones of a large population. Default (), if it
            was not asked.
        seconds: Time that exploring took, shared evenly by the members explored for. None (default) if the explorer was
            not asked.
        time: When it was decided, in seconds since 1970. Default 0.0.
    """

    assignment: Assignment
    known: int
    training: tuple[Key, ...] = ()
    seconds: float | None = None
    time: float = 0.0


@dataclass(frozen=True)
class Event:
    """Something else to put on record: a run that began or ended, an error and its traceback.

    Args:
        kind: Name of what happened, such as "failure".
        text: What to tell about it. Default "".
        member: Member that it concerns. None (default) for the whole run.
        round: Round that it concerns. None (default) for the whole run.
        data: More to record: numbers, strings, and lists and dicts of them. Default {}.
        time: When it happened, in seconds since 1970. Default 0.0, for the moment it is stored.
        id: Its number in the store, from 1. None (default) before it is stored.
    """

    kind: str
    text: str = ""
    member: int | None = None
    round: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    time: float = 0.0
    id: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", plain(self.data, "data"))


def plain(value: Any, name: str) -> Any:
    """The value as JSON would give it back: lists for tuples and arrays, Python's numbers for numpy's.

    >>> plain({"loss": np.float32(0.5), "shape": (2, 3)}, "metrics")
    {'loss': 0.5, 'shape': [2, 3]}
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic | np.ndarray) and not isinstance(listed := value.tolist(), np.generic):
        return plain(listed, name)
    if isinstance(value, list | tuple):
        return [plain(item, name) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(item, f"{name}[{key!r}]") for key, item in value.items()}
    raise HistoryError(
        f"{name}: a record holds numbers, strings, booleans, None, and lists and dicts of them, got {value!r}; "
        "convert it"
    )


def with_standard_error(metrics: Mapping[str, Any], error: float | None) -> Mapping[str, Any]:
    """The metrics, with the standard error of the score among them where it is known.

    >>> with_standard_error({"episodes": 4}, 0.5)
    {'episodes': 4, 'standard_error': 0.5}
    """
    if error is None or error != error:  # That of a single episode is NaN.
        return metrics
    if not (is_real(error) and 0 <= error < math.inf):
        raise HistoryError(f"standard_error must be at least 0, or None if unknown, got {error!r}; leave it out")
    return {**metrics, STANDARD_ERROR: float(error)}


def _same(a: Any, b: Any) -> bool:
    """Equality, two NaNs being the same, also deep inside."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b or (a != a and b != b))
