"""The time-varying mixed kernel (paper, Eq. TV-CoCaBO kernel and appendix "Gradients").

    k(z, z') = (1 - lam)(k_xt + k_ht) + lam * k_xt * k_ht
    k_xt = s1 * exp(-|x - x'|^2 / l) * (1 - eps1)^(|t - t'| / 2)
    k_ht = s2 * match(h, h') * (1 - eps2)^(|t - t'| / 2)

The code uses a = (1 - lam) s1, b = (1 - lam) s2, c = lam s1 s2, r = -log(1 - eps):

    k = E (a + c Q) + b Q,   E = exp(-|x - x'|^2 / l - r1 |t - t'| / 2),   Q = match * exp(-r2 |t - t'| / 2)

which is linear in (a, b, c), and a bijection with (s1, s2, lam): lam is the root in [0, 1) of a b lam = c (1 - lam)^2.

| symbol | meaning | shape |
|---|---|---|
| z  | numerical inputs after `embed` (and context columns) | (n, p) |
| h  | index of each categorical variable's label, -1 when inactive | (n, m) |
| t  | round number | (n,) |
| match | share of the categorical variables on which two points agree | (n, n) |
| theta | log a, log b, log c, log l_1..l_k, log r1, log r2, log noise | (6 + k,) |
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from popbandits.basics.typing import BoolArray, FloatArray, IntArray

A, B, C, LENGTH = 0, 1, 2, 3
"""Indices into theta; r1, r2 and the noise are the last three."""
R1, R2, NOISE = -3, -2, -1


@dataclass(frozen=True)
class Inputs:
    """n points as inputs of the kernel: embedded numbers z, labels h, rounds t."""

    z: FloatArray
    h: IntArray
    t: FloatArray

    def __len__(self) -> int:
        return len(self.t)

    def append(self, other: "Inputs") -> "Inputs":
        """Return these points followed by the others."""
        return Inputs(
            np.concatenate([self.z, other.z]), np.concatenate([self.h, other.h]), np.concatenate([self.t, other.t])
        )


@dataclass(frozen=True)
class Embedding:
    """Maps numbers in [0, 1], some of which may be absent, to coordinates of a Euclidean space.

    A number that is always present is its own coordinate. One that may be absent lies on an arc of radius one,
    x -> (sin x, cos x), with "absent" at the centre: two present values stay |x - x'| apart to within 4%, and each
    is at distance one from "absent". Any stationary kernel of the Euclidean distance stays positive semi-definite.
    """

    conditional: BoolArray
    """(d,) which numbers may be absent."""

    @property
    def owner(self) -> IntArray:
        """(p,) index of the number of each coordinate: all first coordinates, then the second ones of the arcs."""
        return np.concatenate([np.arange(len(self.conditional)), np.flatnonzero(self.conditional)])

    def __call__(self, x: FloatArray) -> FloatArray:
        """Map (n, d) numbers, NaN where absent, to (n, p) coordinates."""
        if not self.conditional.any():
            return x
        arc = x[:, self.conditional]
        first = x.copy()
        first[:, self.conditional] = np.where(np.isnan(arc), 0.0, np.sin(arc))
        return np.concatenate([first, np.where(np.isnan(arc), 0.0, np.cos(arc))], axis=1)

    def pull_back(self, x: FloatArray, gradient: FloatArray) -> FloatArray:
        """Map (n, p) derivatives by coordinate to (n, d) derivatives by number; zero where absent."""
        if not self.conditional.any():
            return gradient
        d = len(self.conditional)
        out = gradient[:, :d].copy()
        arc = x[:, self.conditional]
        slope = out[:, self.conditional] * np.cos(arc) - gradient[:, d:] * np.sin(arc)
        out[:, self.conditional] = np.where(np.isnan(arc), 0.0, slope)
        return out


def match(h: IntArray, other: IntArray) -> FloatArray:
    """Return the share of categorical variables on which two points agree: (n, m), (q, m) -> (n, q)."""
    same = np.zeros((len(h), len(other)))
    for column in range(h.shape[1]):
        same += h[:, column, None] == other[None, :, column]
    share: FloatArray = same / max(1, h.shape[1])
    return share


def distances(z: FloatArray, other: FloatArray) -> FloatArray:
    """Compute squared Euclidean distances, (n, p), (q, p) -> (n, q), by the product form: fast, never negative."""
    cross = z @ other.T
    cross *= -2.0
    cross += np.einsum("ij,ij->i", z, z)[:, None]
    cross += np.einsum("ij,ij->i", other, other)[None, :]
    return np.maximum(cross, 0.0, out=cross)


@dataclass(frozen=True)
class Kernel:
    """The mixed kernel at one theta."""

    theta: FloatArray
    owner: IntArray
    """(p,) which length-scale each coordinate uses."""

    def scale(self, z: FloatArray) -> FloatArray:
        """Divide coordinates by the square root of their l, so that squared distances are divided by l."""
        length = self.theta[LENGTH:R1]
        return z * np.exp(-0.5 * (length[self.owner] if len(length) > 1 else length))

    def parts(self, left: Inputs, right: Inputs) -> tuple[FloatArray, FloatArray]:
        """Return E and Q of the module's formula between two sets of points, each (n, q)."""
        gap = np.abs(left.t[:, None] - right.t[None, :])
        e = distances(self.scale(left.z), self.scale(right.z))
        e += (0.5 * np.exp(self.theta[R1])) * gap
        np.negative(e, out=e)
        np.exp(e, out=e)
        if left.h.shape[1] == 0:
            return e, np.zeros_like(gap)
        return e, match(left.h, right.h) * np.exp((-0.5 * np.exp(self.theta[R2])) * gap)

    def __call__(self, left: Inputs, right: Inputs) -> FloatArray:
        """Return the covariances between two sets of points, without noise."""
        a, b, c = np.exp(self.theta[:LENGTH])
        e, q = self.parts(left, right)
        k: FloatArray = e * (a + c * q) + b * q
        return k

    @property
    def variance(self) -> float:
        """k(z, z) = a + b + c, the paper's (1 - lam)(s1 + s2) + lam s1 s2; not 1."""
        return float(np.exp(self.theta[:LENGTH]).sum())


@lru_cache(maxsize=4)
def below_diagonal(n: int) -> IntArray:
    """Return the indices of the entries below the diagonal of a flattened (n, n) column-major matrix."""
    column, row = np.nonzero(np.tri(n, k=-1, dtype=np.bool_).T)
    return column * n + row


class Pairs:
    """The theta-independent parts of the kernel matrix of fixed points, computed once: the lower triangle, packed.

    Order: the diagonal, then pairs that agree on some categorical variable, then the rest. Q is zero on the rest, so
    the categorical part needs only a slice: 1/C of the pairs if labels are spread evenly.
    """

    def __init__(self, inputs: Inputs, owner: IntArray, lengths: int):
        n = len(inputs)
        self.n = n
        diagonal, below = np.arange(n) * (n + 1), below_diagonal(n)
        agreement = match(inputs.h, inputs.h).ravel()
        some = agreement[below] > 0
        self.index = np.concatenate([diagonal, below[some], below[~some]])
        self.agreeing = n + int(some.sum())
        self.match = agreement[self.index[: self.agreeing]]
        self.gap = (0.5 * np.abs(inputs.t[:, None] - inputs.t)).ravel()[self.index]
        groups = [np.flatnonzero(owner == k) for k in range(lengths)] if lengths > 1 else [slice(None)]
        # |x - x'|^2, one row for each length-scale
        self.squares = np.stack([distances(inputs.z[:, g], inputs.z[:, g]).ravel()[self.index] for g in groups])
