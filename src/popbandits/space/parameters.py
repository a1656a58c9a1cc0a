"""Hyperparameters: how values are checked, encoded for the models and drawn.

| symbol | meaning | range |
|---|---|---|
| code | the value of a number; the index of a label | [lower, upper]; 0, 1, ... |
| x | a code on its own scale: (s(code) - s(lower)) / (s(upper) - s(lower)), s = log or identity | [0, 1] |
| u | a quantile of the parameter's distribution | [0, 1) |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal, get_args

import ConfigSpace as cs
import numpy as np
from ConfigSpace.hyperparameters import FloatHyperparameter, IntegerHyperparameter
from scipy.special import betaincinv, ndtr, ndtri

from popbandits.basics.arithmetic import without_rounding
from popbandits.basics.typing import BoolArray, FloatArray, IntArray
from popbandits.errors import SpaceError
from popbandits.space.build import ONLY, AnyHyperparameter, unbox
from popbandits.space.ranges import Only

INACTIVE: Any = object()
"""Marks an inactive parameter in a column of values."""


class _Labelled:
    """A parameter whose values are labels, compared by equality; but a bool never equals a number."""

    name: str
    labels: tuple[Any, ...]

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {label: index for index, label in enumerate(self.labels)}

    def code(self, value: Any) -> float:
        """Return the index of a label; SpaceError if there is no such label."""
        value = unbox(value)
        try:
            index = self._index.get(value, -1)
        except TypeError:  # not hashable, so not a label
            index = -1
        if index < 0 or isinstance(value, bool) != isinstance(self.labels[index], bool):
            raise SpaceError(f"{self.name!r}: the value must be one of {self.labels!r}, got {value!r}")
        return index

    def codes(self, values: Sequence[Any]) -> FloatArray:
        """Return the codes of a column of values; SpaceError if a value is not allowed."""
        if set(map(type, values)) == {str}:
            codes = np.array([self._index.get(value, -1) for value in values], float)
            if (codes >= 0).all():
                return codes
        return np.array([self.code(value) for value in values], float)

    def at(self, code: float) -> Any:
        """Return the label."""
        return self.labels[int(code)]


@dataclass(frozen=True)
class Categorical(_Labelled):
    """A choice among two labels or more, without order."""

    name: str
    labels: tuple[Any, ...]
    weights: tuple[float, ...]

    def quantile(self, u: FloatArray) -> IntArray:
        """Return the index of the label whose share of [0, 1) holds u.

        >>> Categorical("c", ("a", "b"), (0.25, 0.75)).quantile(np.array([0.0, 0.24, 0.25]))
        array([0, 0, 1])
        """
        total = np.cumsum(self.weights)
        return np.searchsorted(total[:-1] / total[-1], u, side="right")

    @property
    def weighted(self) -> bool:
        """True if some labels are more probable than others."""
        return len(set(self.weights)) > 1

    def prefer(self, codes: IntArray, u: FloatArray) -> FloatArray:
        """Return quantiles of which one half falls on the labels of these codes, the others where u spreads them.

        >>> choice = Categorical("c", ("a", "b"), (0.25, 0.75))
        >>> choice.quantile(choice.prefer(np.array([1, 1, 0, -1]), np.array([0.0, 0.49, 0.49, 0.2])))
        array([1, 1, 0, 0])
        """
        total = np.cumsum(self.weights)
        low, high = np.append(0.0, total[:-1])[codes] / total[-1], total[codes] / total[-1]
        # Within the label's share, not at its end: rounding could fall on the next label.
        preferred = np.where(u < 0.5, low + (0.25 + u) * (high - low), 2 * u - 1)
        return np.where(codes < 0, u, preferred)

    def column(self, codes: IntArray) -> list[Any]:
        """Return the labels of codes, INACTIVE for -1."""
        labels = (*self.labels, INACTIVE)
        return [labels[code] for code in codes.tolist()]

    def __str__(self) -> str:
        return f"{self.name}: one of {', '.join(map(repr, self.labels))}"


@dataclass(frozen=True)
class Fixed(_Labelled):
    """A constant or a single label: part of a configuration, but not modelled."""

    name: str
    labels: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.name}: always {self.labels[0]!r}"


@dataclass(frozen=True)
class Normal:
    """A normal distribution of x, truncated to [0, 1]."""

    mean: float
    sigma: float

    @cached_property
    def _mass(self) -> tuple[float, float]:
        # Mirrored so that the mean is at least 1/2: then the tail at 0 is small and loses no digits.
        mean = max(self.mean, 1 - self.mean)
        return float(ndtr(-mean / self.sigma)), float(ndtr((1 - mean) / self.sigma))

    def proper(self) -> bool:
        """Tell whether any mass lies in [0, 1]."""
        return self.sigma > 0 and self._mass[0] < self._mass[1]

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return x = mean + sigma Phi^-1(a + u (b - a)); a and b are the mass below 0 and below 1."""
        a, b = self._mass
        mirrored = self.mean < 0.5
        z: FloatArray = self.sigma * ndtri(a + (1 - u if mirrored else u) * (b - a))
        return (self.mean - z if mirrored else self.mean + z).clip(0, 1)


@dataclass(frozen=True)
class Beta:
    """A beta distribution of x."""

    alpha: float
    beta: float

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return the x at which the regularised incomplete beta function is u."""
        x: FloatArray = betaincinv(self.alpha, self.beta, u)
        return x


@dataclass(frozen=True)
class Numerical(_Labelled):
    """A float, an integer or an ordinal, modelled as a number x in [0, 1]."""

    name: str
    kind: Literal["float", "integer", "ordinal"]
    lower: float
    upper: float
    log: bool = False
    conditional: bool = False
    labels: tuple[Any, ...] = ()
    prior: Normal | Beta | None = None
    only: Only | None = None

    @property
    def levels(self) -> int | None:
        """Number of values; None for a float."""
        return None if self.kind == "float" else int(self.upper - self.lower) + 1

    @cached_property
    def _scale(self) -> "Scale":
        return Scale([self])

    def grid(self) -> FloatArray:
        """Return x of every level, in order."""
        assert self.levels is not None, f"{self.name} has no levels"
        return self._scale.unit(np.arange(self.lower, self.upper + 1, dtype=np.float64)[:, None])[:, 0]

    def quantile(self, u: FloatArray) -> FloatArray:
        """Return x at the quantile u of the parameter's distribution; every level gets its full share.

        >>> Numerical("depth", "integer", 1, 3).quantile(np.array([0.3, 0.34, 0.99]))
        array([0. , 0.5, 1. ])
        """
        q = u if self.prior is None else self.prior.quantile(u)
        if self.levels is None:
            return q
        if not self.log:
            return np.minimum(np.floor(q * self.levels), self.levels - 1) / (self.levels - 1)
        # A prior is a distribution of x. Without one, half a level at both ends gives the end levels their full share.
        reach = 0.0 if self.prior else 0.5
        start, stop = math.log(self.lower - reach), math.log(self.upper + reach)
        codes = np.rint(np.exp(start + q * (stop - start))).clip(self.lower, self.upper)
        return self._scale.unit(codes[:, None])[:, 0]

    def code(self, value: Any) -> float:
        """Return the code of a value; SpaceError if the value is not allowed."""
        if self.kind == "ordinal":
            return super().code(value)
        wanted, rule = (Integral, "an integer") if self.kind == "integer" else (Real, "a number")
        own = float if self.kind == "float" else int
        if type(value) is not own and (isinstance(value, bool) or not isinstance(value, wanted)):
            raise SpaceError(f"{self.name!r}: the value must be {rule}, got {value!r}; convert it")
        code = float(value)
        if not self.lower - self._beyond <= code <= self.upper + self._beyond:
            raise SpaceError(
                f"{self.name!r}: the value must be in [{self.lower!r}, {self.upper!r}], got {value!r}; clip it"
            )
        return min(max(code, self.lower), self.upper)

    def codes(self, values: Sequence[Any]) -> FloatArray:
        """Return the codes of a column of values; SpaceError if a value is not allowed."""
        if self.kind != "ordinal" and set(map(type, values)) == {float if self.kind == "float" else int}:
            codes = np.array(values, float)
            if ((codes >= self.lower - self._beyond) & (codes <= self.upper + self._beyond)).all():
                return np.where(codes < self.lower, self.lower, np.where(codes > self.upper, self.upper, codes))
        return super().codes(values)

    def nearest(self, value: float) -> float:
        """Return the nearest value within the bounds, whole for an integer; not for ordinals."""
        inside = min(max(value, self.lower), self.upper)
        return round(inside) if self.kind == "integer" else inside

    @cached_property
    def _beyond(self) -> float:
        """How far outside of its bounds a value may lie."""
        # ConfigSpace rounds bounds to 13 decimals: a float on the bound as written may lie just outside.
        return 1e-13 + 1e-12 * (self.upper - self.lower) if self.kind == "float" else 0.0

    def at(self, code: float) -> Any:
        """Return the value of a code, in its declared type."""
        if self.kind == "float":
            return code
        return int(code) if self.kind == "integer" else self.labels[int(code)]

    def column(self, codes: FloatArray) -> list[Any]:
        """Return the values of codes, INACTIVE for NaN."""
        values: list[Any] = codes.tolist()
        if self.kind == "float" and not self.conditional:
            return values
        return [self.at(code) if code == code else INACTIVE for code in values]

    def slack(self, codes: FloatArray) -> FloatArray | float:
        """Return the tolerance of encoding and decoding a float: closer values count as equal."""
        return 1e-12 * (np.abs(codes) if self.log else max(abs(self.lower), abs(self.upper)))

    def same(self, one: Any, other: Any) -> bool:
        """Tell whether two values are equal, floats up to rounding.

        >>> rate = Numerical("rate", "float", -0.1, 0.7)
        >>> rate.same(0.3, 0.1 + 0.2), rate.same(0.0, 1.4e-17), rate.same(0.3, 0.30001)
        (True, True, False)
        """
        if self.kind != "float":
            return bool(one == other)
        scale = max(abs(one), abs(other)) if self.log else max(abs(self.lower), abs(self.upper))
        return not without_rounding(float(other - one), scale)

    def __str__(self) -> str:
        only = f" only {self.only}" if self.only else ""
        if self.kind == "ordinal":
            return f"{self.name}: {' < '.join(map(repr, self.labels))}{only}"
        log, prior = " log" if self.log else "", f" {self.prior}" if self.prior else ""
        return f"{self.name}: {self.kind} [{self.lower!r}, {self.upper!r}]{log}{prior}{only}"


Parameter = Numerical | Categorical | Fixed


class Scale:
    """Converts codes to x and back for several numerical parameters at once, one column each."""

    def __init__(self, parameters: Sequence[Numerical]) -> None:
        self.lower: FloatArray = np.array([p.lower for p in parameters], float)
        self.upper: FloatArray = np.array([p.upper for p in parameters], float)
        self.log: BoolArray = np.array([p.log for p in parameters], bool)
        self.discrete: BoolArray = np.array([p.kind != "float" for p in parameters], bool)
        self._start = self._transform(self.lower)
        self._span = self._transform(self.upper) - self._start
        # Of a range on a log scale 0 is no value.
        self._largest = np.where(self.log, 0.0, np.maximum(np.abs(self.lower), np.abs(self.upper)))

    def _transform(self, codes: FloatArray) -> FloatArray:
        return np.log(codes, out=codes.copy(), where=self.log)

    def unit(self, codes: FloatArray) -> FloatArray:
        """Return x of codes (..., d) inside the bounds; NaN stays NaN."""
        return (self._transform(codes) - self._start) / self._span

    def codes(self, x: FloatArray) -> FloatArray:
        """Return the codes of x (..., d): within the bounds, exact at 0 and 1, whole if discrete; NaN stays NaN."""
        codes = without_rounding(self._start + x * self._span, self._largest)
        np.exp(codes, out=codes, where=self.log)
        np.rint(codes, out=codes, where=self.discrete)
        codes = codes.clip(self.lower, self.upper)
        return np.where(x <= 0, self.lower, np.where(x >= 1, self.upper, codes))


def describe(hp: AnyHyperparameter, conditional: bool) -> Parameter:
    """Convert a hyperparameter of ConfigSpace to the parameter that the encoding uses."""
    parameter = _describe(hp, conditional)
    only = (hp.meta or {}).get(ONLY)
    if only is None:
        return parameter
    if only not in get_args(Only):
        raise SpaceError(f"{hp.name!r}: a number only 'falls' or only 'rises', got {only!r}; write one of the two")
    if not isinstance(parameter, Numerical):
        raise SpaceError(
            f"{hp.name!r}: only a number or an ordinal can be one that only {only}, got {parameter}; drop the limit, "
            "or use ConfigSpace's OrdinalHyperparameter for labels that have an order"
        )
    return replace(parameter, only=only)


def _describe(hp: AnyHyperparameter, conditional: bool) -> Parameter:
    if isinstance(hp, FloatHyperparameter):
        return Numerical(hp.name, "float", hp.lower, hp.upper, hp.log, conditional, prior=_prior(hp))
    if isinstance(hp, IntegerHyperparameter):
        return Numerical(hp.name, "integer", hp.lower, hp.upper, hp.log, conditional, prior=_prior(hp))
    if isinstance(hp, cs.OrdinalHyperparameter) and len(hp.sequence) > 1:
        labels = tuple(map(unbox, hp.sequence))
        return Numerical(hp.name, "ordinal", 0, len(labels) - 1, False, conditional, labels)
    if isinstance(hp, cs.CategoricalHyperparameter) and len(hp.choices) > 1:
        labels = tuple(map(unbox, hp.choices))
        return Categorical(hp.name, labels, tuple(hp.probabilities.tolist()))
    return Fixed(hp.name, (unbox(hp.default_value),))


def _prior(hp: AnyHyperparameter) -> Normal | Beta | None:
    if isinstance(hp, cs.BetaFloatHyperparameter | cs.BetaIntegerHyperparameter):
        return Beta(hp.alpha, hp.beta)
    if not isinstance(hp, cs.NormalFloatHyperparameter | cs.NormalIntegerHyperparameter):
        return None
    mean, start, stop = (math.log(value) if hp.log else value for value in (hp.mu, hp.lower, hp.upper))
    # ConfigSpace's sigma on a log scale: it draws with this one, not with the standard deviation of log v.
    sigma = abs(math.log(hp.lower + hp.sigma)) if hp.log else hp.sigma
    prior = Normal((mean - start) / (stop - start), sigma / (stop - start))
    if not prior.proper():
        raise SpaceError(
            f"{hp.name!r}: a normal distribution needs mass within its bounds, got mu={hp.mu!r}, "
            f"sigma={hp.sigma!r} in [{hp.lower!r}, {hp.upper!r}]; move mu closer or raise sigma"
        )
    return prior
