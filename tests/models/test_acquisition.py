"""The bound and its maximiser."""

import numpy as np
import pytest
from ConfigSpace import (
    ConfigurationSpace,
    EqualsCondition,
    Float,
    ForbiddenEqualsClause,
    ForbiddenGreaterThanRelation,
    Integer,
)

from popbandits.models.acquisition import UpperConfidenceBound, candidates, confidence, maximise
from popbandits.models.gp import Posterior, Structure
from popbandits.models.kernel import Embedding
from popbandits.space import Points, Space

RNG = np.random.default_rng
NOTHING_KNOWN = np.empty((0, 2))


def bound_on(space: Space, x: np.ndarray, h: np.ndarray, y: np.ndarray, length: float = 0.05, weight: float = 0.5):
    """A bound over a smooth function through the points (x, h, y), all observed in round 0."""
    structure = Structure(Embedding(np.array([number.conditional for number in space.numerical], dtype=bool)))
    theta = np.log([0.6, 0.2, 0.6, length, 1e-3, 1e-3, 1e-4])
    inputs = structure.inputs(x, h, np.zeros(len(x)))
    return UpperConfidenceBound(structure, Posterior.at(structure, theta, inputs, y), weight, time=1.0)


def two_floats() -> tuple[Space, UpperConfidenceBound]:
    space = Space({"a": (0.0, 1.0), "b": (0.0, 1.0), "h": ["p", "q"]})
    x, h = RNG(0).random((40, 2)), RNG(1).integers(2, size=(40, 1))
    y = np.exp(-20 * ((x - np.where(h == 0, 0.2, 0.8)) ** 2).sum(axis=1))
    return space, bound_on(space, x, h, (y - y.mean()) / y.std())


def best(bound, space, labels, known=NOTHING_KNOWN, count=64, **options):
    labels = np.array(labels)
    uniform = RNG(2).random((count + len(known), len(space.numerical)))
    return maximise(bound, space, *candidates(space, labels, known, uniform), groups=len(labels), **options)


def test_the_confidence_is_never_negative_and_grows_with_the_logarithm():
    assert confidence(2) == 0.0
    assert confidence(1000) ** 2 == pytest.approx(0.2 * np.log(400))


def test_the_maximiser_beats_a_fine_grid():
    space, bound = two_floats()
    axis = np.linspace(0, 1, 101)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    found = best(bound, space, [[0], [1]])
    for label in (0, 1):
        everywhere = bound(Points(grid, np.full((len(grid), 1), label)))
        assert found.values[label] >= everywhere.max() - 1e-4


def test_each_group_is_maximised_at_its_own_labels():
    space, bound = two_floats()
    found = best(bound, space, [[0], [1], [0]])
    np.testing.assert_array_equal(found.points.h[:, 0], [0, 1, 0])
    np.testing.assert_allclose(found.points.x[0], found.points.x[2], atol=0.02)
    assert np.linalg.norm(found.points.x[0] - found.points.x[1]) > 0.3


def test_a_sharp_optimum_that_has_been_seen_is_found_with_its_numbers_and_missed_without():
    space = Space({"a": (0.0, 1.0), "b": (0.0, 1.0), "h": ["p", "q"]})
    x, h = RNG(3).random((60, 2)), np.zeros((60, 1), dtype=np.int64)
    y = np.full(60, -0.1)
    x[7], y[7] = (0.613, 0.377), 6.0
    bound = bound_on(space, x, h, y, length=3e-4, weight=0.1)
    without, with_it = (best(bound, space, [[0]], known, count=16) for known in (NOTHING_KNOWN, x))
    np.testing.assert_allclose(with_it.points.x[0], x[7], atol=0.01)
    assert with_it.values[0] > without.values[0] + 1.0


def test_integers_are_stepped_through_and_stay_on_their_levels():
    space = Space({"a": (0.0, 1.0), "n": (1, 9), "h": ["p", "q"]})
    x = space.snap(RNG(4).random((60, 2)))
    y = -((x[:, 0] - 0.4) ** 2) - (x[:, 1] - 0.75) ** 2
    bound = bound_on(space, x, np.zeros((60, 1), dtype=np.int64), (y - y.mean()) / y.std(), length=0.3, weight=0.0)
    start = Points(np.array([[0.9, 0.0]]), np.zeros((1, 1), dtype=np.int64))
    found = maximise(bound, space, start, np.zeros(1, dtype=np.int64), groups=1)
    assert space.decode(found.points)[0]["n"] == 7


def test_integers_of_many_levels_are_climbed_and_snapped():
    space = Space({"a": (0.0, 1.0), "n": (0, 1000), "h": ["p", "q"]})
    x = space.snap(RNG(4).random((60, 2)))
    y = -((x[:, 0] - 0.4) ** 2) - (x[:, 1] - 0.7003) ** 2
    bound = bound_on(space, x, np.zeros((60, 1), dtype=np.int64), (y - y.mean()) / y.std(), length=0.3, weight=0.0)
    found = maximise(
        bound, space, Points(x[:1], np.zeros((1, 1), dtype=np.int64)), np.zeros(1, dtype=np.int64), groups=1
    )
    np.testing.assert_array_equal(found.points.x, space.snap(found.points.x))
    assert space.decode(found.points)[0]["n"] == pytest.approx(700, abs=30)


def test_forbidden_points_are_never_returned():
    made = ConfigurationSpace({"a": (0.0, 1.0), "n": Integer("n", (1, 9)), "h": ["p", "q"]})
    made.add(ForbiddenEqualsClause(made["n"], 7))
    space = Space(made)
    x = space.snap(RNG(4).random((60, 2)))
    y = -((x[:, 0] - 0.4) ** 2) - (x[:, 1] - 0.75) ** 2
    bound = bound_on(space, x, np.zeros((60, 1), dtype=np.int64), (y - y.mean()) / y.std(), length=0.3, weight=0.0)
    assert space.decode(best(bound, space, [[0]]).points)[0]["n"] in (6, 8)


def test_a_climb_that_ends_where_it_is_forbidden_is_not_kept():
    """The bound rises towards a = 1 and b = 0, where a would be above b."""
    made = ConfigurationSpace({"a": (0.0, 1.0), "b": (0.0, 1.0), "h": ["p", "q"]})
    made["b"].default_value = 1.0
    made.add(ForbiddenGreaterThanRelation(made["a"], made["b"]))
    space = Space(made)
    x = RNG(4).random((60, 2))
    y = x[:, 0] - x[:, 1]
    bound = bound_on(space, x, np.zeros((60, 1), dtype=np.int64), (y - y.mean()) / y.std(), length=0.3, weight=0.0)
    start = Points(np.array([[0.2, 0.6]]), np.zeros((1, 1), dtype=np.int64))
    found = maximise(bound, space, start, np.zeros(1, dtype=np.int64), groups=1)
    assert space.legal(found.points).all()
    assert found.points.x.tolist() == start.x.tolist(), "the start was legal, and stays"
    assert found.values == pytest.approx(bound(start))


def test_a_group_without_a_legal_point_has_no_value():
    made = ConfigurationSpace({"a": (0.0, 1.0), "b": (0.0, 1.0), "h": ["p", "q"]})
    made.add(ForbiddenEqualsClause(made["h"], "q"))
    space = Space(made)
    _, bound = two_floats()
    found = best(bound, space, [[0], [1]])
    assert np.isfinite(found.values[0])
    assert found.values[1] == -np.inf


def test_absent_numbers_stay_absent_while_the_rest_is_climbed():
    made = ConfigurationSpace({"a": Float("a", (0.0, 1.0)), "b": Float("b", (0.0, 1.0)), "h": ["p", "q"]})
    made.add(EqualsCondition(made["b"], made["h"], "q"))
    space = Space(made)
    points = space.sample(50, RNG(5))
    y = -((points.x[:, 0] - 0.3) ** 2) - np.nan_to_num((points.x[:, 1] - 0.6) ** 2)
    bound = bound_on(space, points.x, points.h, (y - y.mean()) / y.std(), length=0.3, weight=0.0)
    found = best(bound, space, [[0], [1]])
    assert np.isnan(found.points.x[0, 1])
    np.testing.assert_allclose(found.points.x[:, 0], 0.3, atol=0.1)
    assert found.points.x[1, 1] == pytest.approx(0.6, abs=0.1)


def test_what_is_pending_lowers_the_bound_there():
    space, bound = two_floats()
    point = best(bound, space, [[0]]).points
    assert bound.with_pending(point)(point)[0] < bound(point)[0]
