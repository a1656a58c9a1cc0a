"""Records of a run: assignments, observations, decisions and events."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from popbandits.basics.arithmetic import difference
from popbandits.basics.rules import SCORE, is_real, is_whole, real
from popbandits.basics.typing import FloatArray
from popbandits.errors import HistoryError

Config = dict[str, Any]
"""A configuration: native Python values, only the active hyperparameters; nested if the space was written nested."""

Key = tuple[int, int]
"""(member, round): names an interval of training and the checkpoint at its end."""

STATUSES = ("completed", "failed", "lost")
Status = Literal["completed", "failed", "lost"]
"""Lost: the parent's checkpoint was missing or damaged, so the member did not train, and nothing follows for config."""

STANDARD_ERROR = "standard_error"
"""Name of the metric that holds the standard error of a score."""

COST = "cost"
"""Name of the metric that holds what an interval cost, in any unit; reports, and the limit of a run, add it up."""

_AT_LEAST_0 = real("at least 0, or None if unknown", lambda number: 0 <= number < math.inf, "leave it out").or_none()
RULES = {
    "score_before": replace(SCORE, words="finite, or NaN if unknown", fix="leave it out"),
    "steps": real("a positive number, or None if unknown", lambda n: 0 < n < math.inf, "leave it out").or_none(),
    "seconds": _AT_LEAST_0,
    STANDARD_ERROR: _AT_LEAST_0,
    COST: _AT_LEAST_0,
}
"""Rules for the numbers of an observation; each allows a range."""


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
        decision: How the explorer chose this configuration. Default {}, if the member keeps its configuration.
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
    """One interval of training that has ended.

    >>> before = Observation(0, 0, {"lr": 0.1}, score=1.0)
    >>> Observation(1, 1, {"lr": 0.2}, parent=(0, 0), score_before=1.0, score=1.5).change
    0.5

    Args:
        member: Number of the member that trained, from 0.
        round: Number of its interval, from 0.
        config: Hyperparameters it trained with.
        parent: (member, round) of the checkpoint it began from. None (default) for a fresh start.
        score_before: Score of that checkpoint. Default nan, where nothing was measured before.
        score: Score at the end, as reported. Default nan, for an interval that failed.
        steps: Budget spent, such as environment steps. None (default) if unknown.
        seconds: Time it took. None (default) if unknown.
        status: How it ended: "completed" (default), "failed", or "lost" if the parent's checkpoint was missing or
            damaged, so that it never trained.
        metrics: Anything else that was reported. Default {}.
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
            raise HistoryError(f"a lost observation must have a parent, got {self.key} without one; mark it as failed")
        for name in ("score_before", "steps", "seconds"):
            RULES[name].check(name, getattr(self, name), HistoryError)
        for name in ("member", "round", "score_before", "score", "steps", "seconds"):
            if isinstance(given := getattr(self, name), np.generic):  # SQLite does not accept these.
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
        """The score minus the parent's score, y = F_after - F_before; NaN if either is unknown. All readers show it.

        It is 0 where the two are equal up to rounding.
        """
        return difference(self.score, self.score_before)

    @property
    def standard_error(self) -> float | None:
        """The standard error of the score, if known. It is one of the metrics, so that any run can hold it."""
        return self._metric(STANDARD_ERROR)

    @property
    def cost(self) -> float | None:
        """Return the cost of the interval, in the agent's unit; None if it reported no metric of this name."""
        return self._metric(COST)

    def _metric(self, name: str) -> float | None:
        """Return a metric that has a rule; None if it was not reported, or breaks it."""
        told: Any = self.metrics.get(name)
        return float(told) if told is not None and RULES[name].holds(told) else None

    @property
    def failed(self) -> bool:
        """True if the interval ended without a usable score."""
        return self.status != "completed"

    @property
    def fallback(self) -> str | None:
        """The reason why the explorer sampled instead of using its model; None if it used the model."""
        reason = self.decision.get("fallback")
        return None if reason is None else str(reason)

    def __eq__(self, other: object) -> bool:
        """Compare all fields but `seconds`; two NaNs are equal."""
        if not isinstance(other, Observation):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.name != "seconds")

    def __hash__(self) -> int:
        return hash(self.key)


def status_of(score: float, lost: bool = False) -> Status:
    """Return how an interval ended, by its score, NaN if there is none, and whether its parent's checkpoint was lost.

    >>> status_of(0.5), status_of(math.nan), status_of(math.nan, lost=True)
    ('completed', 'failed', 'lost')
    """
    return "lost" if lost else "completed" if math.isfinite(score) else "failed"


def broken_rule(columns: Mapping[str, FloatArray] | np.ndarray[Any, Any]) -> str | None:
    """Return a rule of `Observation` that columns of many break, in words; None if they keep them all.

    >>> columns = {
    ...     "completed": 1,
    ...     "lost": 0,
    ...     "parent_member": 0,
    ...     "score_before": 0,
    ...     "score": 2,
    ...     "steps": 0,
    ...     "seconds": 1,
    ... }
    >>> broken_rule({name: np.array([float(value)]) for name, value in columns.items()})
    'steps must be a positive number, or None if unknown'

    Args:
        columns: A column for each number, with NaN where it is unknown; `completed` and `lost` are 1 where that is the
            status, and `parent_member` is NaN without a parent.
    """
    if (np.isfinite(columns["score"]) != (columns["completed"] > 0)).any() or np.isinf(columns["score"]).any():
        return "a completed observation has a finite score, and no other has one"
    if ((columns["lost"] > 0) & np.isnan(columns["parent_member"])).any():
        return "a lost observation has a parent"
    for name in ("score_before", "steps", "seconds"):
        known = columns[name][~np.isnan(columns[name])]
        if len(known) and not (RULES[name].holds(known.min()) and RULES[name].holds(known.max())):
            return f"{name} must be {RULES[name].words}"
    return None


def merit(observation: Observation, sign: float) -> tuple[float, int, int]:
    """Return a key that sorts completed observations, best last: by score, round, member; `sign` is -1 for mode "min".

    >>> first, second = Observation(1, 0, {}, score=0.5), Observation(0, 1, {}, score=0.5)
    >>> max(first, second, key=lambda one: merit(one, 1.0)).key
    (0, 1)
    """
    return sign * observation.score, observation.round, observation.member


def assemble(values: Mapping[str, Any]) -> Observation:
    """Build an observation from all its fields without checking them: the caller has."""
    observation = object.__new__(Observation)
    observation.__dict__.update(values)
    return observation


@dataclass(frozen=True)
class Decision:
    """A decision for one member, and the data it was made from. A `View` receives those of every `ask`.

    Args:
        assignment: What the member trains next.
        known: Length of the history when the decision was made.
        training: Pending intervals that the explorer was given, the last ones of a large population. Default (), if the
            explorer was not called.
        seconds: Time that deciding took, divided evenly among the members explored for. None (default) if the explorer
            was not called, or nothing measured it: a recorded run does.
        time: Time of the decision, in seconds since 1970. Default 0.0, where nothing records it.
        explored: True if the explorer was called. Default False.
    """

    assignment: Assignment
    known: int
    training: tuple[Key, ...] = ()
    seconds: float | None = None
    time: float = 0.0
    explored: bool = False


@dataclass(frozen=True)
class Event:
    """Any other event of a run to record: its start or end, an error and its traceback.

    Args:
        kind: Kind of event, such as "failure".
        text: Description. Default "".
        member: Member that it concerns. None (default) for the whole run.
        round: Round that it concerns. None (default) for the whole run.
        data: Further data: numbers, strings, and lists and dicts of them. Default {}.
        time: Time of the event, in seconds since 1970. Default 0.0, for the moment it is stored.
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
    """Convert a value to what JSON would return: lists for tuples and arrays, Python numbers for numpy's.

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
    """Return the metrics, with the standard error of the score added if it is known.

    >>> with_standard_error({"episodes": 4}, 0.5)
    {'episodes': 4, 'standard_error': 0.5}
    """
    if error is None or error != error:  # For a single episode it is NaN.
        return metrics
    RULES[STANDARD_ERROR].check(STANDARD_ERROR, error, HistoryError)
    return {**metrics, STANDARD_ERROR: float(error)}


def _same(a: Any, b: Any) -> bool:
    """Compare two values; NaNs are equal, also inside dicts and lists."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b or (a != a and b != b))
