"""Warn of problems that a run's scores show: bounds, a standstill, noise. docs/warnings.md has the rules.

Each rule looks at the last third of the rounds, and is silent while there is too little data:

- `bounds`: new configurations gather at one end of a hyperparameter's range.
- `standstill`: the leading member's lineage gains no more than noise explains, having gained more before, or never.
- `noise`: members' scores in a round differ no more than two evaluations of the same weights would.

Noise is the reported standard error of a score, or else the estimate of `history/noise.py` from the lineages.
`failures` says how many intervals failed, and why the last one did.
`outlook` says whether more rounds promise more, by the same thirds of a lineage as `standstill`.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from popbandits.basics.arithmetic import difference
from popbandits.basics.records import merit
from popbandits.basics.typing import FloatArray
from popbandits.basics.wording import counted, first_line, number, setting
from popbandits.history import History, Key, Observation
from popbandits.history.noise import MAX_OBSERVATIONS, MIN_GAINS, estimate
from popbandits.space import Space
from popbandits.space.parameters import Numerical

MIN_ROUNDS = 4
"""Minimum number of rounds in the last third."""

BOUND_MARGIN = 0.01
"""Distance from a bound, as a share of the range on its own scale, within which a number counts as on it."""

MAX_LEVELS_SKIPPED = 100
"""Integers and ordinals with at most this many levels are not judged: their ends are values like any other."""

MIN_CONFIGS, MIN_ON_BOUND, MIN_SHARE_ON_BOUND = 4, 3, 0.5
"""Minimum number of new configurations; minimum number, and share, of them on the same bound."""

MAX_NAMED = 3
"""Maximum number of hyperparameters named in a warning."""

MAX_LINEAGE = 1000
"""Maximum number of intervals that a lineage is followed back."""

MIN_THIRD_INTERVALS = 3
"""Minimum number of intervals in a third of a lineage."""

MIN_GAIN_SHARE = 0.01
"""A gain below this share of the gain before counts as none, with or without noise."""

TRIMMED_SHARE = 0.25
"""Share of the scores of a third, at least one, that is left out at either end: one collapse is no trend."""

TRIMMED_VARIANCE = 1.2
"""Variance of such a mean as a multiple of the mean's, for normal noise; 1.35 with 3 scores."""

NOISE_STANDARD_ERRORS = 2.0
"""Number of standard errors that noise explains."""

LOW_RATE_SHARE = 0.1
"""A learning rate below this share of its range, on its own scale, may be too low to learn with."""

LEARNING_RATE = re.compile(r"(?<![a-z])lr(?![a-z])|learning.?rate|step.?size", re.IGNORECASE)

MAX_VARIANCE_RATIO = 1.5
"""Scores whose variance is at most this multiple of the noise variance are ranked by luck."""

MIN_VARIANCE_RATIO = 0.01
"""Scores whose variance is below this multiple share their noise, as on the same episodes: luck does not rank them."""

MIN_DEGREES_OF_FREEDOM = 8
"""Minimum degrees of freedom of the variance of members' scores."""


@dataclass(frozen=True)
class Advice:
    """A warning or, of the kind "rising", an outlook: what the run shows, and what to look at."""

    kind: Literal["bounds", "standstill", "noise", "rising", "failed"]
    text: str


def advise(history: History) -> list[Advice]:
    """Judge a run by its history."""
    size, recent = _recent(history)
    return judge(recent, len(history), size, history.space, history.sign, partial(_back, history))


def failures(failed: int, intervals: int, last: str = "") -> Advice | None:
    """Say how many intervals failed; None if none did.

    >>> print(failures(3, 40, "ValueError: lr is too high").text)
    3 of 40 intervals failed; the last: ValueError: lr is too high

    Args:
        failed: Number of intervals that failed.
        intervals: Number of intervals.
        last: Error of the last one that failed. Default "", if none did.
    """
    if not failed:
        return None
    return Advice("failed", f"{failed:,} of {counted(intervals, 'interval')} failed; the last: {first_line(last, 200)}")


@np.errstate(over="ignore", invalid="ignore")
def outlook(history: History) -> Advice | None:
    """Say that the leading member still gets better, if that is clear; else None."""
    noise = score_noise(history)
    found = None if noise is None else _thirds(_recent(history)[1], history.sign, partial(_back, history), noise)
    if found is None or not found.gain > max(NOISE_STANDARD_ERRORS * found.error, MIN_GAIN_SHARE * found.before):
        return None
    change, earlier = _change(found.change, found.error), number(found.earlier, 3, "+")
    return Advice(
        "rising",
        f"The leading member still gets better: over the last {found.length} intervals of its lineage the "
        f"interquartile mean of its score changed by {change}, over the {found.length} before by {earlier}.",
    )


def score_noise(history: History) -> float | None:
    """Return the variance of a score's noise in the last rounds; None if there is too little data to tell."""
    return _noise(_recent(history)[1], history.sign)


def _recent(history: History) -> tuple[int, list[Observation]]:
    """Return the number of members, and the last observations that the rules need."""
    size = history.size or int(history.intervals()[0].max(initial=0)) + 1
    return size, history[-count_recent(len(history), size) :]


def _back(history: History, key: Key) -> Iterator[float]:
    return (o.score for o in history.ancestors(history.find(key)))


def count_recent(observations: int, size: int) -> int:
    """Return how many of the last observations of a run the rules need."""
    return size * min(max(16, _third(observations, size) + 1), max(MIN_ROUNDS, MAX_OBSERVATIONS // size))


def _third(observations: int, size: int) -> int:
    return max(MIN_ROUNDS, observations // size // 3)


@np.errstate(over="ignore", invalid="ignore")  # Scores near 1e308 are not judged.
def judge(
    recent: Sequence[Observation],
    observations: int,
    size: int,
    space: Space,
    sign: float,
    lineage: Callable[[Key], Iterable[float]],
) -> list[Advice]:
    """Judge a run by its last observations.

    Args:
        recent: Last `count_recent(observations, size)` observations, in the order they were told.
        observations: Number of observations so far.
        size: Number of members.
        sign: +1 to maximise, -1 to minimise.
        lineage: Function that returns the scores of the lineage that ends with (member, round), newest first.
    """
    tail = recent[-size * _third(observations, size) :]
    noise = _noise(recent, sign)
    found = [_bounds(tail, recent, space)]
    if noise is not None:
        found += [_standstill(_thirds(recent, sign, lineage, noise), space), _spread(tail, noise)]
    return [one for one in found if one is not None]


def _noise(recent: Sequence[Observation], sign: float) -> float | None:
    """Return the variance of a score's noise; 0 if none is seen, None if there is too little data to tell."""
    scored = [o for o in recent if not o.failed]
    told = [o.standard_error for o in scored if o.standard_error is not None]
    if told and len(told) == len(scored):
        return float(np.square(told).mean())
    if sum(o.parent is not None and math.isfinite(o.change) for o in scored) < MIN_GAINS:
        return None
    model = estimate(recent, sign, None)
    return 0.0 if model is None else float(np.mean([model.noise(o) for o in scored]))


# New configurations on bounds


@dataclass(frozen=True)
class _End:
    """An end of a range, and how many of the configurations with that hyperparameter are at it."""

    parameter: Numerical
    side: Literal["lower", "upper"]
    count: int
    active: int

    def __str__(self) -> str:
        value = self.parameter.at(getattr(self.parameter, self.side))
        return f"{_name(self.parameter)} at its {self.side} end ({setting(value)})"


def _bounds(tail: Sequence[Observation], recent: Sequence[Observation], space: Space) -> Advice | None:
    x = space.encode([o.config for o in _new(tail, recent)]).x
    ends: list[_End] = []
    for column, parameter in zip(x.T, space.numerical, strict=True):
        active = int(np.isfinite(column).sum())
        if active < MIN_CONFIGS or (parameter.levels is not None and parameter.levels <= MAX_LEVELS_SKIPPED):
            continue
        counts = int((column <= BOUND_MARGIN).sum()), int((column >= 1 - BOUND_MARGIN).sum())
        end = _End(parameter, "lower" if counts[0] >= counts[1] else "upper", max(counts), active)
        if end.count >= max(MIN_ON_BOUND, MIN_SHARE_ON_BOUND * active):
            ends.append(end)
    if not ends:
        return None
    ends.sort(key=lambda end: -end.count / end.active)
    first, *others = ends[:MAX_NAMED]
    said = f"{first.count} of the last {first.active} new configurations have {first}"
    said += "".join(f"; {end.count} of {end.active} have {end}" for end in others)
    said += f"; {counted(len(ends) - MAX_NAMED, 'more hyperparameter')} at an end" if len(ends) > MAX_NAMED else ""
    if len(ends) == 1:
        said += ". Widen its range if values beyond it make sense; if not, fix it at a value."
    else:
        said += ". Widen these ranges if values beyond them make sense; if not, fix each at a value."
    rates = [_name(end.parameter) for end in ends if end.side == "lower" and LEARNING_RATE.search(end.parameter.name)]
    if rates:
        said += (
            " If members hardly learn with so low a value, "
            f"raise the lower end of {' and '.join(rates[:MAX_NAMED])} instead: "
            "a noisy score falls least where nothing changes, and a model learns to prefer that."
        )
    return Advice("bounds", said)


def _new(tail: Sequence[Observation], recent: Sequence[Observation]) -> list[Observation]:
    """Return the observations with a new configuration: neither the member's previous one nor the parent's."""
    configs = {o.key: o.config for o in recent}
    return [
        o
        for o in tail
        if (o.member, o.round - 1) in configs
        and o.config != configs[o.member, o.round - 1]
        and (o.parent is None or o.config != configs.get(o.parent))
    ]


def _name(parameter: Numerical) -> str:
    return first_line(parameter.name, 60)


# A leading member that hardly learns any more


class _Thirds(NamedTuple):
    """Differences between the interquartile mean scores of the thirds of the leading member's lineage.

    Args:
        change: Of the last third from the second.
        earlier: Of the second third from the first.
        whole: Of the last third from the first.
        gain: The change, of which more is better.
        before: The earlier one, of which more is better.
        error: Standard error of each.
        length: Number of intervals of a third.
        total: Number of intervals of the lineage.
    """

    leader: Observation
    change: float
    earlier: float
    whole: float
    gain: float
    before: float
    error: float
    length: int
    total: int


def _thirds(
    recent: Sequence[Observation], sign: float, lineage: Callable[[Key], Iterable[float]], noise: float
) -> _Thirds | None:
    """Divide the leading member's lineage; None if it is too short, or its scores are too large to subtract."""
    last = {o.member: o for o in recent if not o.failed}
    if not last:
        return None
    leader = max(last.values(), key=lambda o: merit(o, sign))
    # Without the last score: it made this member the leader, and that was partly luck.
    scores: FloatArray = np.array([*islice(lineage(leader.key), 1, MAX_LINEAGE)], float)[::-1]
    third = len(scores) // 3
    if third < MIN_THIRD_INTERVALS:
        return None
    first, middle, end = (_interquartile_mean(scores[-k * third :][:third]) for k in (3, 2, 1))
    change, earlier, whole = difference(end, middle), difference(middle, first), difference(end, first)
    error = math.sqrt(2 * TRIMMED_VARIANCE * noise / third)
    if not (math.isfinite(change) and math.isfinite(earlier)):
        return None
    return _Thirds(leader, change, earlier, whole, sign * change, sign * earlier, error, third, len(scores))


def _interquartile_mean(scores: FloatArray) -> float:
    """Return the mean of the middle half."""
    cut = max(1, int(TRIMMED_SHARE * len(scores)))
    return float(np.sort(scores)[cut:-cut].mean())


def _standstill(found: _Thirds | None, space: Space) -> Advice | None:
    if found is None or found.gain > max(found.error, MIN_GAIN_SHARE * found.before):
        return None
    # The variance of before - gain = 2 middle - first - end is six times that of a mean.
    if found.before - found.gain > NOISE_STANDARD_ERRORS * math.sqrt(3) * found.error:
        fell = -found.gain > max(NOISE_STANDARD_ERRORS * found.error, MIN_GAIN_SHARE * found.before)
        said = (
            f"The leading member {'gets worse' if fell else 'hardly learns any more'}: over the last {found.length} "
            f"intervals of its lineage the interquartile mean of its score changed by "
            f"{_change(found.change, found.error)}, over the {found.length} before by {number(found.earlier, 3, '+')}."
        )
        otherwise = "the hyperparameters it trains with and their ranges"
    elif found.before + found.gain <= NOISE_STANDARD_ERRORS * found.error:
        said = (
            f"The leading member has not got better by more than noise explains: from the first third of its "
            f"{found.total} intervals to the last the interquartile mean of its score changed by "
            f"{_change(found.whole, found.error)}."
        )
        otherwise = "the ranges, or begin with a configuration that is known to learn (start=)"
    else:
        return None  # Too noisy to tell.
    rates = _low_rates(found.leader, space)
    return Advice("standstill", f"{said} If the task is not solved, look at {rates or otherwise}.")


def _change(change: float, error: float) -> str:
    return number(change, 3, "+") + (f" (standard error {number(error, 2)})" if error else "")


def _low_rates(leader: Observation, space: Space) -> str:
    """Describe the learning rates that are low, with their values."""
    x = space.encode([leader.config]).x[0]
    config = space.flatten(leader.config)
    low = [p for p, at in zip(space.numerical, x, strict=True) if at <= LOW_RATE_SHARE and LEARNING_RATE.search(p.name)]
    named = " and ".join(f"{_name(p)} = {setting(config[p.name])}" for p in low[:MAX_NAMED])
    return f"{named}: that is in the lowest tenth of the range, and may be too low to learn with" if low else ""


# Scores that differ only by noise


def _spread(tail: Sequence[Observation], noise: float) -> Advice | None:
    rounds: dict[int, list[float]] = {}
    for o in tail:
        if not o.failed:
            rounds.setdefault(o.round, []).append(o.score)
    several = [scores for scores in rounds.values() if len(scores) > 1]
    freedom = sum(len(scores) - 1 for scores in several)
    if freedom < MIN_DEGREES_OF_FREEDOM or not 0 < noise < math.inf:
        return None
    variance = sum(float(np.var(scores)) * len(scores) for scores in several) / freedom
    if not MIN_VARIANCE_RATIO * noise <= variance <= MAX_VARIANCE_RATIO * noise:
        return None
    spread, one = number(math.sqrt(variance), 3), number(math.sqrt(noise), 3)
    return Advice(
        "noise",
        f"Members' scores differ by little but noise: their standard deviation in the last {len(several)} rounds is "
        f"{spread}, that of a score's noise {one}. Who is best is luck. Evaluate with more episodes.",
    )
