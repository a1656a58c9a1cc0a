"""The GP against finite differences, scipy and scikit-learn."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from popbandits.models.gp import PRIOR, Likelihood, NotFittedError, Posterior, Structure, bounds, fit, prior, starts
from popbandits.models.kernel import Embedding, Inputs

from .test_kernel import paper_kernel, theta_of

STRUCTURES = {
    "mixed": Structure(Embedding(np.zeros(3, dtype=bool))),
    "a length-scale each": Structure(Embedding(np.zeros(3, dtype=bool)), per_dimension=True),
    "no labels": Structure(Embedding(np.zeros(3, dtype=bool)), labels=False),
    "labels only": Structure(Embedding(np.zeros(0, dtype=bool))),
    "one number": Structure(Embedding(np.zeros(1, dtype=bool))),
    "no time": Structure(Embedding(np.zeros(3, dtype=bool)), time=False),
    "conditional numbers": Structure(Embedding(np.array([False, True, True])), per_dimension=True),
    "with context": Structure(Embedding(np.zeros(3, dtype=bool)), context=1, per_dimension=True),
}
EVERY_STRUCTURE = pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES.keys())


def some_data(structure: Structure, n: int = 40, seed: int = 0) -> tuple[Inputs, np.ndarray]:
    rng = np.random.default_rng(seed)
    d = len(structure.embedding.conditional)
    x = rng.random((n, d))
    x[:, structure.embedding.conditional] = np.where(
        rng.random((n, structure.embedding.conditional.sum())) < 0.3, np.nan, x[:, structure.embedding.conditional]
    )
    h = rng.integers(3, size=(n, 2))
    t = np.arange(n) // 4.0
    y = np.sin(4 * np.nan_to_num(x).sum(axis=1)) + h[:, 0] + 0.2 * rng.normal(size=n)
    return structure.inputs(x, h, t, rng.random((n, 1))), (y - y.mean()) / y.std()


def random_theta(structure: Structure, rng: np.random.Generator) -> np.ndarray:
    low, high = bounds(structure).T
    theta = rng.uniform(np.maximum(low, -3), np.minimum(high, 1))
    theta[-1] = rng.uniform(-4, 0)
    return structure.theta(theta[structure.free])


def central_difference(function, at, entry, step=1e-5):
    up, down = at.copy(), at.copy()
    up[entry] += step
    down[entry] -= step
    return (function(up) - function(down)) / (2 * step)


@EVERY_STRUCTURE
def test_likelihood_gradients_match_central_differences(structure):
    rng = np.random.default_rng(3)
    likelihood = Likelihood(structure, *some_data(structure))
    for _ in range(10):
        theta = random_theta(structure, rng)
        _, gradient = likelihood(theta)
        scale = np.abs(gradient).max()
        for entry in np.flatnonzero(structure.free):
            expected = central_difference(lambda at: likelihood(at)[0], theta, entry)
            assert gradient[entry] == pytest.approx(expected, rel=1e-5, abs=1e-7 * scale), entry


@EVERY_STRUCTURE
def test_the_likelihood_is_that_of_a_normal_vector(structure):
    inputs, y = some_data(structure)
    theta = random_theta(structure, np.random.default_rng(4))
    k = Posterior.at(structure, theta, inputs, y).kernel(inputs, inputs) + np.exp(theta[-1]) * np.eye(len(y))
    expected = multivariate_normal(np.zeros(len(y)), k).logpdf(y)
    assert Likelihood(structure, inputs, y)(theta)[0] == pytest.approx(expected, rel=1e-10)


def test_an_offset_that_some_rows_share_and_nobody_knows_is_integrated_out():
    """Their y is a + f(x), a ~ N(0, 1): one more term of the covariance, wherever both rows have it."""
    structure = STRUCTURES["mixed"]
    inputs, y = some_data(structure)
    shifted = np.random.default_rng(0).random(len(y)) < 0.4
    theta = random_theta(structure, np.random.default_rng(4))
    plain = Posterior.at(structure, theta, inputs, y)
    k = plain.kernel(inputs, inputs) + np.exp(theta[-1]) * np.eye(len(y)) + 1.0 * np.outer(shifted, shifted)
    likelihood = Likelihood(structure, inputs, y, shifted)
    assert likelihood(theta)[0] == pytest.approx(multivariate_normal(np.zeros(len(y)), k).logpdf(y), rel=1e-10)
    _, gradient = likelihood(theta)
    for entry in np.flatnonzero(structure.free):
        expected = central_difference(lambda at: likelihood(at)[0], theta, entry)
        assert gradient[entry] == pytest.approx(expected, rel=1e-5, abs=1e-7 * np.abs(gradient).max())

    new = some_data(structure, n=6, seed=1)[0]
    mean, std = Posterior.at(structure, theta, inputs, y, shifted).predict(new)
    across = plain.kernel(inputs, new)
    np.testing.assert_allclose(mean, across.T @ np.linalg.solve(k, y), rtol=1e-8)
    left = plain.kernel.variance - np.einsum("ij,ij->j", across, np.linalg.solve(k, across))
    np.testing.assert_allclose(std, np.sqrt(left), rtol=1e-8)


VALUES = {"s1": 1.1, "s2": 0.6, "lam": 0.35, "length": 0.4, "eps1": 0.03, "eps2": 0.1}


class PaperKernel(SklearnKernel):
    """The paper's kernel for scikit-learn: columns are two numbers, two labels, and the round."""

    def __init__(self):
        pass

    def __call__(self, left, right=None, eval_gradient=False):
        right = left if right is None else right
        parts = [(a[:, :2], a[:, 2:4].astype(int), a[:, 4]) for a in (left, right)]
        return paper_kernel(*parts[0], *parts[1], **VALUES)

    def diag(self, left):
        return np.diag(self(left))

    def is_stationary(self):
        return False


def test_the_posterior_is_scikit_learns():
    rng = np.random.default_rng(5)
    structure, noise = Structure(Embedding(np.zeros(2, dtype=bool))), 0.07
    x, h, t = rng.random((60, 2)), rng.integers(3, size=(60, 2)), np.arange(60) // 4.0
    y = np.sin(5 * x[:, 0]) + h[:, 0] + 0.1 * rng.normal(size=60)
    table = np.column_stack([x, h, t])
    oracle = GaussianProcessRegressor(PaperKernel(), alpha=noise, optimizer=None).fit(table[:40], y[:40])
    mean, std = oracle.predict(table[40:], return_std=True)
    data, new = structure.inputs(x[:40], h[:40], t[:40]), structure.inputs(x[40:], h[40:], t[40:])
    ours = Posterior.at(structure, theta_of(**VALUES, noise=noise), data, y[:40]).predict(new)
    np.testing.assert_allclose(ours[0], mean, atol=1e-8)
    np.testing.assert_allclose(ours[1], std, atol=1e-8)


@EVERY_STRUCTURE
def test_the_bound_has_the_derivative_it_says(structure):
    inputs, y = some_data(structure)
    posterior = Posterior.at(structure, random_theta(structure, np.random.default_rng(6)), inputs, y)
    new = some_data(structure, n=5, seed=1)[0]
    value, slope = posterior.predict_with_gradient(new, weight=0.8)
    mean, std = posterior.predict(new)
    np.testing.assert_allclose(value, mean + 0.8 * std, rtol=1e-9)
    for column in range(new.z.shape[1]):

        def moved(z, column=column):
            mean, std = posterior.predict(
                Inputs(np.column_stack([*new.z.T[:column], z, *new.z.T[column + 1 :]]), new.h, new.t)
            )
            return mean + 0.8 * std

        step = 1e-5
        expected = (moved(new.z[:, column] + step) - moved(new.z[:, column] - step)) / (2 * step)
        np.testing.assert_allclose(slope[:, column], expected, rtol=1e-5, atol=1e-7 * np.abs(slope).max())


def test_a_number_that_may_be_absent_has_the_derivative_of_its_arc():
    embed = Embedding(np.array([True, False]))
    x, slope = np.array([[0.3, 0.6], [np.nan, 0.2]]), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    pulled = embed.pull_back(x, slope)
    step = 1e-6
    move = np.array([step, 0.0])
    along = (embed(x + move) - embed(x - move)) / (2 * step)
    np.testing.assert_allclose(pulled[:, 0], (along * slope).sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(pulled[:, 1], [2.0, 5.0])


def test_pending_points_narrow_the_deviation_and_leave_the_mean():
    structure = STRUCTURES["mixed"]
    inputs, y = some_data(structure)
    theta = random_theta(structure, np.random.default_rng(7))
    pending, new = some_data(structure, n=3, seed=2)[0], some_data(structure, n=8, seed=3)[0]
    posterior = Posterior.at(structure, theta, inputs, y)
    conditioned = posterior.condition(pending)
    np.testing.assert_allclose(conditioned.predict(new)[0], posterior.predict(new)[0], rtol=1e-12)
    assert (conditioned.predict(new)[1] < posterior.predict(new)[1]).all()
    # The deviation is the one that a refit with any y for the pending points would give.
    refit = Posterior.at(structure, theta, inputs.append(pending), np.append(y, [9.0, -9.0, 0.0]))
    np.testing.assert_allclose(conditioned.predict(new)[1], refit.predict(new)[1], rtol=1e-6)


def test_a_fit_recovers_what_made_the_data():
    rng = np.random.default_rng(8)
    structure = Structure(Embedding(np.zeros(1, dtype=bool)))
    inputs = structure.inputs(rng.random((300, 1)), rng.integers(3, size=(300, 1)), np.arange(300) // 4.0)
    truth = np.log([0.5, 0.4, 0.6, 0.1, 0.02, 0.05, 0.05])
    k = Posterior.at(structure, truth, inputs, np.zeros(300)).kernel(inputs, inputs) + 0.05 * np.eye(300)
    y = np.linalg.cholesky(k) @ rng.normal(size=300)
    likelihood = Likelihood(structure, inputs, y)
    found = fit(likelihood, starts(structure), use_prior=False)
    assert found.log_posterior >= likelihood(truth)[0]
    assert np.exp(found.theta[-1]) == pytest.approx(0.05, rel=0.3)
    assert np.exp(found.theta[3]) == pytest.approx(0.1, rel=0.5)


@pytest.mark.parametrize(
    ("name", "fixed"),
    [
        ("mixed", ""),
        ("no labels", "b c r2"),
        ("labels only", "a c l r1"),
        ("no time", "r1 r2"),
    ],
)
def test_a_part_of_the_kernel_that_does_not_exist_is_not_fitted(name, fixed):
    entries = ["a", "b", "c", "l", "r1", "r2", "noise"]
    assert [entry for entry, free in zip(entries, STRUCTURES[name].free, strict=True) if not free] == fixed.split()


def log_prior(structure, theta):
    """Up to a constant: log-normal, with the medians and deviations that `PRIOR` holds; lengths grow with sqrt(d)."""
    amplitudes, rates = [PRIOR["amplitude"]] * 3, [PRIOR["rate"]] * 2
    median, deviation = PRIOR["length"]
    lengths = [(median * np.sqrt(max(1, structure.numbers)), deviation)] * structure.lengths
    table = np.array([*amplitudes, *lengths, *rates, PRIOR["noise"]])[structure.free]
    return -0.5 * np.sum(((theta[structure.free] - np.log(table[:, 0])) / table[:, 1]) ** 2)


@EVERY_STRUCTURE
def test_a_fit_is_a_maximum_of_the_likelihood_times_the_prior(structure):
    likelihood = Likelihood(structure, *some_data(structure))
    found = fit(likelihood, starts(structure))

    def posterior(theta):
        return likelihood(theta)[0] + log_prior(structure, theta)

    assert found.log_posterior == pytest.approx(posterior(found.theta), rel=1e-9)
    low, high = bounds(structure).T
    for entry in np.flatnonzero(structure.free):
        for step in (-0.1, 0.1):
            moved = found.theta.copy()
            moved[entry] = np.clip(moved[entry] + step, low[entry], high[entry])
            assert posterior(moved) <= found.log_posterior + 1e-3, (entry, step)


@EVERY_STRUCTURE
def test_a_fit_is_the_best_of_its_starts(structure):
    likelihood, guesses = Likelihood(structure, *some_data(structure)), starts(structure)
    alone = [fit(likelihood, guess[None]) for guess in guesses]
    for order in (guesses, guesses[::-1]):
        together = fit(likelihood, order)
        assert together.log_posterior == max(each.log_posterior for each in alone)
        assert together.evaluations == sum(each.evaluations for each in alone)


@EVERY_STRUCTURE
def test_a_fit_begins_where_it_is_told_to_or_at_the_nearest_bound(structure):
    likelihood = Likelihood(structure, *some_data(structure))
    found = fit(likelihood, starts(structure))
    again = fit(likelihood, found.theta[None])
    assert again.evaluations <= 5, "there is little left to do at a maximum"
    assert again.log_posterior == pytest.approx(found.log_posterior, abs=1e-3)
    low, high = bounds(structure).T
    for beyond, nearest in ((low - 3.0, low), (high + 3.0, high)):
        reached = [fit(likelihood, start[None], iterations=3).theta for start in (beyond, nearest)]
        np.testing.assert_array_equal(*reached)
    assert (
        fit(likelihood, low[None], iterations=1).log_posterior
        != fit(likelihood, high[None], iterations=1).log_posterior
    )


@EVERY_STRUCTURE
def test_what_is_likely_beforehand_and_where_a_fit_starts_is_within_its_bounds(structure):
    low, high = bounds(structure).T
    median, deviation = prior(structure).T
    assert len(low) == 6 + structure.lengths
    assert (deviation > 0.5).all()
    for inside in (median, *starts(structure)):
        assert ((low + 0.5 < inside) & (inside < high - 0.5)).all()
    numbers_age, labels_age = starts(structure)
    assert numbers_age[-3] > numbers_age[-2] + 1.0, "the numbers' part forgets, labels keep their worth"
    assert labels_age[-2] > labels_age[-3] + 1.0, "and the other way round"


def test_a_fit_ends_after_the_iterations_it_is_given():
    likelihood = Likelihood(STRUCTURES["mixed"], *some_data(STRUCTURES["mixed"]))
    short, long = (fit(likelihood, starts(STRUCTURES["mixed"]), iterations) for iterations in (2, 60))
    assert short.evaluations < 20 < long.evaluations
    assert short.log_posterior < long.log_posterior


@pytest.mark.parametrize("d", [2, 4, 9])
def test_with_more_numbers_points_are_further_apart_and_lengths_are_expected_to_be_longer(d):
    """Squared distances between random points grow with d, and their spread with sqrt(d): so do the lengths."""
    one, many = (Structure(Embedding(np.zeros(numbers, dtype=bool))) for numbers in (1, d))
    for one_length, many_length in (
        (prior(one)[3, 0], prior(many)[3, 0]),
        *zip(starts(one)[:, 3], starts(many)[:, 3], strict=True),
    ):
        assert many_length - one_length == pytest.approx(0.5 * np.log(d))


def test_data_that_no_kernel_fits_are_refused_not_modelled():
    structure = STRUCTURES["no labels"]
    inputs, y = some_data(structure)
    with pytest.raises(NotFittedError, match="none of 2 starts"):
        fit(Likelihood(structure, inputs, np.full_like(y, np.nan)), starts(structure))


def test_repeated_points_without_noise_still_factorise():
    structure = STRUCTURES["no labels"]
    inputs, y = some_data(structure)
    doubled = inputs.append(inputs)
    theta = random_theta(structure, np.random.default_rng(9))
    theta[-1] = -80.0
    mean, std = Posterior.at(structure, theta, doubled, np.append(y, y)).predict(inputs)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
