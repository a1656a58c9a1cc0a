"""The mixed kernel against the paper's formula written out, and its properties."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from popbandits.models.kernel import Embedding, Inputs, Kernel, Pairs, match


def paper_kernel(x, h, t, x2, h2, t2, s1, s2, lam, length, eps1, eps2):
    """k_z of the paper's appendix, entry by entry."""
    k = np.empty((len(x), len(x2)))
    for i in range(len(x)):
        for j in range(len(x2)):
            gap = abs(t[i] - t2[j])
            k_xt = s1 * np.exp(-np.sum((x[i] - x2[j]) ** 2) / length) * (1 - eps1) ** (gap / 2)
            k_ht = s2 / h.shape[1] * np.sum(h[i] == h2[j]) * (1 - eps2) ** (gap / 2)
            k[i, j] = (1 - lam) * (k_xt + k_ht) + lam * k_xt * k_ht
    return k


def from_paper(s1: float, s2: float, lam: float) -> tuple[float, float, float]:
    """Convert (s1, s2, lambda) to (a, b, c)."""
    return (1 - lam) * s1, (1 - lam) * s2, lam * s1 * s2


def to_paper(a: float, b: float, c: float) -> tuple[float, float, float]:
    """Convert (a, b, c) to (s1, s2, lambda): the root in [0, 1) of a b lam = c (1 - lam)^2."""
    if c == 0:
        return a, b, 0.0
    half = 1 + a * b / (2 * c)  # lam^2 - 2 half lam + 1 = 0
    lam = 1 / (half + math.sqrt(half * half - 1))
    return a / (1 - lam), b / (1 - lam), lam


def theta_of(s1, s2, lam, length, eps1, eps2, noise=0.1):
    """The same hyperparameters as this project writes them."""
    return np.log([*from_paper(s1, s2, lam), length, -np.log1p(-eps1), -np.log1p(-eps2), noise])


@pytest.mark.parametrize("variables", [1, 3])
def test_the_kernel_is_the_papers_formula(variables):
    rng = np.random.default_rng(0)
    x, h, t = rng.random((9, 2)), rng.integers(3, size=(9, variables)), rng.integers(6, size=9).astype(float)
    values = {"s1": 1.3, "s2": 0.7, "lam": 0.4, "length": 0.5, "eps1": 0.05, "eps2": 0.2}
    kernel = Kernel(theta_of(**values), np.arange(2))
    ours = kernel(Inputs(x, h, t), Inputs(x[:4], h[:4], t[:4]))
    np.testing.assert_allclose(ours, paper_kernel(x, h, t, x[:4], h[:4], t[:4], **values), rtol=1e-12)


def test_the_diagonal_is_not_one_but_the_papers_sum():
    s1, s2, lam = 1.3, 0.7, 0.4
    kernel = Kernel(theta_of(s1, s2, lam, 0.5, 0.05, 0.2), np.arange(1))
    assert kernel.variance == pytest.approx((1 - lam) * (s1 + s2) + lam * s1 * s2)


@given(*[st.floats(0.01, 10)] * 2, st.floats(0.001, 0.99))
def test_the_two_ways_to_write_the_amplitudes_are_a_bijection(s1, s2, lam):
    np.testing.assert_allclose(to_paper(*from_paper(s1, s2, lam)), (s1, s2, lam), rtol=1e-6)


def test_a_present_number_is_one_away_from_absent_and_keeps_its_distances():
    embed = Embedding(np.array([False, True]))
    z = embed(np.array([[0.3, np.nan], [0.3, 0.1], [0.3, 0.9]]))
    assert np.linalg.norm(z[0] - z[1]) == pytest.approx(1.0)
    assert np.linalg.norm(z[0] - z[2]) == pytest.approx(1.0)
    assert np.linalg.norm(z[1] - z[2]) == pytest.approx(0.8, rel=0.04)


def test_an_inactive_label_matches_only_another_inactive_one():
    h = np.array([[0, -1], [0, 1], [1, -1]])
    np.testing.assert_array_equal(match(h, h), [[1, 0.5, 0.5], [0.5, 1, 0], [0.5, 0, 1]])


unit = st.floats(0, 1)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_kernel_matrices_are_positive_semi_definite(data):
    n, d, m = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    x = data.draw(hnp.arrays(float, (n, d), elements=st.one_of(unit, st.just(np.nan))))
    h = data.draw(hnp.arrays(np.int64, (n, m), elements=st.integers(-1, 3)))
    t = data.draw(hnp.arrays(float, n, elements=st.integers(0, 50)))
    theta = data.draw(hnp.arrays(float, 7, elements=st.floats(-7, 3)))
    embed = Embedding(np.ones(d, dtype=bool))
    points = Inputs(embed(x), h, t)
    k = Kernel(theta, embed.owner)(points, points)
    np.testing.assert_allclose(k, k.T, atol=1e-12)
    assert np.linalg.eigvalsh(k).min() >= -1e-9 * max(1.0, np.trace(k))


@pytest.mark.parametrize("lengths", [1, 2])
def test_packed_pairs_hold_what_the_full_matrices_hold(lengths):
    rng = np.random.default_rng(1)
    n = 17
    points = Inputs(rng.random((n, 2)), rng.integers(3, size=(n, 2)), rng.integers(9, size=n).astype(float))
    pairs = Pairs(points, np.arange(2), lengths)
    row, column = pairs.index % n, pairs.index // n
    assert len(set(pairs.index)) == n * (n + 1) // 2
    assert (row >= column).all()
    np.testing.assert_array_equal(row[:n], column[:n])
    np.testing.assert_allclose(pairs.gap, np.abs(points.t[row] - points.t[column]) / 2)
    full = match(points.h, points.h)
    np.testing.assert_allclose(pairs.match, full[row, column][: pairs.agreeing])
    assert not full[row, column][pairs.agreeing :].any()
    squares = (points.z[row] - points.z[column]) ** 2
    np.testing.assert_allclose(pairs.squares, squares.T if lengths == 2 else squares.sum(axis=1)[None], atol=1e-14)
