"""The time-varying Gaussian process: likelihood with analytic gradients, fit, and posterior (paper, Eqs. mu, sigma).

| symbol | meaning | shape |
|---|---|---|
| y      | changes in score, standardised | (n,) |
| K      | kernel matrix plus noise on the diagonal; L its Cholesky factor | (n, n) |
| alpha  | K^-1 y | (n,) |
| theta  | logarithms of a, b, c, l_1..l_k, r1, r2, noise (see `kernel`) | (6 + k,) |

    log p(y) = -1/2 y' K^-1 y - sum_i log L_ii - n/2 log 2 pi        (the paper prints the first term with a plus)
    d log p / d theta_j = sum_ij W_ij (dK/d theta_j)_ij,  W = 1/2 (alpha alpha' - K^-1)
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dsyr
from scipy.optimize import minimize

from popbandits.basics.typing import BoolArray, FloatArray, IntArray
from popbandits.models.kernel import LENGTH, NOISE, R1, R2, A, B, C, Embedding, Inputs, Kernel, Pairs

FAILED_OBJECTIVE = 1e10
"""Objective for a theta whose matrix cannot be factorised: the line search backs off from it."""


class NotFittedError(Exception):
    """No theta gave a positive definite matrix; the explorer samples instead."""


@dataclass(frozen=True)
class Structure:
    """The parts of the kernel that exist; they decide which entries of theta are free."""

    embedding: Embedding
    context: int = 0
    """Columns of z after the embedded numbers: known quantities such as the score before."""
    labels: bool = True
    """True if there are categorical variables."""
    time: bool = True
    """False: observations never age (CoCaBO)."""
    per_dimension: bool = False
    """True if each number has its own length-scale, instead of one for all."""

    @property
    def numbers(self) -> int:
        """Maximum number of length-scales: one for each number and context column."""
        return len(self.embedding.conditional) + self.context

    @property
    def owner(self) -> IntArray:
        """(p,) the length-scale of each column of z."""
        d = len(self.embedding.conditional)
        return np.concatenate([self.embedding.owner, np.arange(d, d + self.context)])

    @property
    def lengths(self) -> int:
        """Number of length-scales."""
        return max(1, self.numbers) if self.per_dimension else 1

    @property
    def free(self) -> BoolArray:
        """(6 + k,) the entries of theta to fit."""
        mask = np.ones(6 + self.lengths, dtype=np.bool_)
        mask[[A, R1]] = self.numbers > 0
        mask[LENGTH:R1] = self.numbers > 0
        mask[[B, R2]] = self.labels
        mask[C] = self.labels and self.numbers > 0
        mask[[R1, R2]] &= self.time
        return mask

    def theta(self, free: FloatArray) -> FloatArray:
        """Fill in the whole theta: -inf removes a part that does not exist from the kernel; an unused length is 1."""
        whole = np.full(6 + self.lengths, -np.inf)
        whole[LENGTH:R1] = 0.0
        whole[self.free] = free
        return whole

    def inputs(self, x: FloatArray, h: IntArray, t: FloatArray, context: FloatArray | None = None) -> Inputs:
        """Return the kernel's inputs for encoded configurations."""
        z = self.embedding(x)
        if self.context and context is not None:
            z = np.concatenate([z, np.broadcast_to(context, (len(x), self.context))], axis=1)
        return Inputs(z, h if self.labels else h[:, :0], t)


def bounds(structure: Structure) -> FloatArray:
    """Return the (6 + k, 2) bounds of theta for standardised y and numbers in [0, 1]."""
    amplitude, length, rate, noise = (1e-3, 20.0), (3e-3, 30.0), (1e-4, 3.0), (1e-5, 2.0)
    rows = [amplitude] * 3 + [length] * structure.lengths + [rate] * 2 + [noise]
    box: FloatArray = np.log(np.array(rows))
    return box


PRIOR = {"amplitude": (0.8, 0.8), "length": (0.08, 0.9), "rate": (0.1, 1.0), "noise": (0.05, 1.5)}
"""p_hyp of the paper's MAP fit: medians, and deviations of the logarithms."""


def prior(structure: Structure) -> FloatArray:
    """Return the (6 + k, 2) prior means and deviations of theta."""
    d = max(1, structure.numbers)
    length = (PRIOR["length"][0] * d**0.5, PRIOR["length"][1])
    rows = [PRIOR["amplitude"]] * 3 + [length] * structure.lengths + [PRIOR["rate"]] * 2 + [PRIOR["noise"]]
    table = np.array(rows)
    return np.column_stack([np.log(table[:, 0]), table[:, 1]])


def starts(structure: Structure) -> FloatArray:
    """Return (s, 6 + k) cold starts, one near each of the two usual maxima of the likelihood.

    Either the numbers' part ages and the labels' part does not, or the other way round; most other local maxima lead to
    one of the two.
    """
    d = max(1, structure.numbers)
    k = structure.lengths
    numbers_age = [0.2, 0.3, 0.5, *[0.1 * d**0.5] * k, 0.15, 0.01, 0.1]
    labels_age = [0.4, 0.02, 0.5, *[0.15 * d**0.5] * k, 0.01, 0.2, 0.1]
    guesses: FloatArray = np.log(np.array([numbers_age, labels_age]))
    return guesses


OFFSET_VARIANCE = 1.0
"""Prior variance, in units of y's, of an unknown offset that some rows share."""


class Likelihood:
    """log p(y | theta) and its gradient for fixed data; reuses its buffers, so one object serves one thread.

    `shifted` marks rows whose y has a common unknown offset. OFFSET_VARIANCE is added to K where both rows have it,
    which integrates the offset out.
    """

    def __init__(self, structure: Structure, inputs: Inputs, y: FloatArray, shifted: BoolArray | None = None):
        self.structure, self.y = structure, y
        self.pairs = Pairs(inputs, structure.owner, structure.lengths)
        n = len(y)
        both = None if shifted is None else shifted[self.pairs.index // n] & shifted[self.pairs.index % n]
        self.shifted = np.zeros(0, dtype=np.int64) if both is None else np.flatnonzero(both)
        self.buffer = np.zeros(len(y) ** 2)

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and its gradient by every entry of theta (zero for those not free)."""
        pairs, n, agree = self.pairs, self.pairs.n, self.pairs.agreeing
        a, b, c = np.exp(theta[:LENGTH])
        length = np.exp(theta[LENGTH:R1])
        r1, r2, noise = np.exp(theta[R1:])
        e = np.dot(-1.0 / length, pairs.squares)
        e -= r1 * pairs.gap
        np.exp(e, out=e)
        q = np.exp(-r2 * pairs.gap[:agree])
        q *= pairs.match
        factor = np.full_like(e, a)  # dK/dE = a + c Q
        factor[:agree] += c * q
        k = e * factor
        k[:agree] += b * q
        k[:n] += noise
        k[self.shifted] += OFFSET_VARIANCE
        self.buffer[pairs.index] = k
        matrix = self.buffer.reshape((n, n), order="F")
        _, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
        if info:
            return -FAILED_OBJECTIVE, np.zeros_like(theta)
        alpha, _ = lapack.dpotrs(matrix, self.y, lower=1)
        value = -0.5 * self.y @ alpha - np.log(np.diagonal(matrix)).sum() - 0.5 * n * np.log(2 * np.pi)
        lapack.dpotri(matrix, lower=1, overwrite_c=1)
        dsyr(-1.0, alpha, lower=1, a=matrix, overwrite_a=1)
        w = self.buffer[pairs.index]  # K^-1 - alpha alpha' = -2 W; each pair off the diagonal represents two entries
        w[:n] *= 0.5
        gradient = np.zeros_like(theta)
        gradient[NOISE] = -noise * w[:n].sum()
        w_head, e_head = w[:agree], e[:agree]
        wq = w_head * q
        weq = wq @ e_head
        gradient[B] = -b * wq.sum()
        gradient[C] = -c * weq
        gradient[R2] = r2 * ((b + c * e_head) * wq) @ pairs.gap[:agree]
        gradient[A] = -a * (w @ e)
        w *= e
        w *= factor
        gradient[LENGTH:R1] = -(pairs.squares @ w) / length
        gradient[R1] = r1 * (pairs.gap @ w)
        return float(value), gradient


@dataclass(frozen=True)
class Fit:
    """A fitted theta and the cost of the fit."""

    theta: FloatArray
    log_posterior: float
    """Log posterior of theta, up to a constant; the log likelihood if the prior is not used."""
    evaluations: int


def fit(likelihood: Likelihood, guesses: FloatArray, iterations: int = 60, use_prior: bool = True) -> Fit:
    """Find the best local maximum of theta's posterior (without the prior: of the likelihood) from several starts."""
    free = likelihood.structure.free
    mean, deviation = prior(likelihood.structure)[free].T
    box = bounds(likelihood.structure)[free]

    def objective(active: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = likelihood(likelihood.structure.theta(active))
        if not use_prior:
            return -value, -gradient[free]
        z = (active - mean) / deviation
        return -value + 0.5 * float(z @ z), z / deviation - gradient[free]

    options = {"maxiter": iterations, "ftol": 1e-6, "gtol": 1e-3}
    begins = [np.clip(guess[free], *box.T) for guess in guesses]
    results = [minimize(objective, x, jac=True, method="L-BFGS-B", bounds=box, options=options) for x in begins]
    fitted = [result for result in results if result.fun < FAILED_OBJECTIVE]
    if not fitted:
        raise NotFittedError(
            f"none of {len(guesses)} starts gave a positive definite matrix of {likelihood.pairs.n} rows"
        )
    best = min(fitted, key=lambda result: result.fun)
    return Fit(likelihood.structure.theta(best.x), float(-best.fun), sum(result.nfev for result in results))


@dataclass(frozen=True)
class Posterior:
    """Mean and standard deviation of the change in score at new points, under a fitted kernel.

    `condition` adds pending points: they narrow the standard deviation and do not change the mean, because their y is
    unknown (GP-BUCB; paper, Eq. gp_bucb_acq).
    """

    kernel: Kernel
    inputs: Inputs
    alpha: FloatArray
    """(n,) K^-1 y; zero for pending points."""
    factor: FloatArray
    """(n, n) L, lower triangle, column-major."""

    @staticmethod
    def at(
        structure: Structure, theta: FloatArray, inputs: Inputs, y: FloatArray, shifted: BoolArray | None = None
    ) -> "Posterior":
        """Condition on data (`shifted` as in `Likelihood`); add jitter to the noise until the matrix factorises."""
        kernel = Kernel(theta, structure.owner)
        matrix = np.asfortranarray(kernel(inputs, inputs))
        if shifted is not None:
            matrix[np.ix_(shifted, shifted)] += OFFSET_VARIANCE
        noise = float(np.exp(theta[NOISE]))
        for jitter in (0.0, 1e-8, 1e-6, 1e-4):
            factor, info = lapack.dpotrf(matrix + (noise + jitter) * np.eye(len(y)), lower=1, clean=1)
            if not info:
                alpha, _ = lapack.dpotrs(factor, y, lower=1)
                return Posterior(kernel, inputs, alpha, factor)
        raise NotFittedError(f"the matrix of {len(y)} rows is not positive definite, even with a jitter of 1e-4")

    def condition(self, pending: Inputs) -> "Posterior":
        """Add pending points: same mean, smaller standard deviation. Extends L by the new rows."""
        if not len(pending):
            return self
        n, q = len(self.inputs), len(pending)
        cross, _ = lapack.dtrtrs(self.factor, self.kernel(self.inputs, pending), lower=1)
        noise = float(np.exp(self.kernel.theta[NOISE]))
        schur = self.kernel(pending, pending) + (noise + 1e-8) * np.eye(q) - cross.T @ cross
        corner, info = lapack.dpotrf(schur, lower=1, clean=1)
        if info:
            raise NotFittedError(f"the factor cannot be extended by {q} points in training")
        factor = np.zeros((n + q, n + q), order="F")
        factor[:n, :n], factor[n:, :n], factor[n:, n:] = self.factor, cross.T, corner
        return Posterior(self.kernel, self.inputs.append(pending), np.append(self.alpha, np.zeros(q)), factor)

    def predict(self, points: Inputs) -> tuple[FloatArray, FloatArray]:
        """Return the mean and standard deviation of the noise-free change at q points, each (q,)."""
        k = self.kernel(self.inputs, points)
        half, _ = lapack.dtrtrs(self.factor, k, lower=1)
        return self.alpha @ k, np.sqrt(self._floor(self.kernel.variance - np.einsum("ij,ij->j", half, half)))

    def predict_with_gradient(self, points: Inputs, weight: float) -> tuple[FloatArray, FloatArray]:
        """Return mean + weight * std at q points, (q,), and its derivative by the coordinates z, (q, p).

        With g_i = E_i (a + c Q_i): dk_i/dz = -2/l g_i (z - z_i), and
        d(mean + weight std)/dz = sum_i v_i dk_i/dz, v = alpha - (weight / std) K^-1 k.
        """
        a, b, c = np.exp(self.kernel.theta[:LENGTH])
        e, q = self.kernel.parts(self.inputs, points)
        g = e * (a + c * q)
        k = g + b * q
        solved, _ = lapack.dpotrs(self.factor, k, lower=1)
        std = np.sqrt(self._floor(self.kernel.variance - np.einsum("ij,ij->j", k, solved)))
        v = g * (self.alpha[:, None] - solved * (weight / std))
        scaled_data, scaled = self.kernel.scale(self.inputs.z), self.kernel.scale(points.z)
        slope = -2.0 * (v.sum(axis=0)[:, None] * scaled - v.T @ scaled_data)
        return self.alpha @ k + weight * std, self.kernel.scale(slope)

    def _floor(self, variance: FloatArray) -> FloatArray:
        """Keep a variance above zero: rounding can make a tiny one negative."""
        return np.maximum(variance, 1e-12 * self.kernel.variance)
