"""What holds for every space, with ConfigSpace itself as the oracle of what is active and what is legal."""

import copy
import pickle
import re
from typing import Any

import ConfigSpace as cs
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from popbandits.errors import SpaceError
from popbandits.space import Points, Space

# No bare boolean: beside a number, ConfigSpace's own samples turn it into one.
LABELS = ["a", "b", "", None, (1, 2), ("x", True), 2, 3.5, -1]
seeds = st.integers(0, 2**32 - 1)


@st.composite
def hyperparameters(draw: Any, name: str) -> Any:
    kind = draw(st.sampled_from(["float", "integer", "choice", "ordinal", "constant", "prior"]))
    if kind in ("choice", "ordinal"):
        labels = draw(st.lists(st.sampled_from(LABELS), min_size=1, max_size=4, unique=True))
        return (cs.CategoricalHyperparameter if kind == "choice" else cs.OrdinalHyperparameter)(name, labels)
    if kind == "constant":
        return cs.Constant(name, draw(st.sampled_from(LABELS)))
    log = draw(st.booleans())
    if kind == "integer":
        lower = draw(st.integers(1, 20) if log else st.integers(-20, 20))
        return cs.Integer(name, (lower, lower + draw(st.integers(1, 1000))), log=log)
    lower = draw(st.sampled_from([1e-6, 0.01, 3.0] if log else [-2.5, 0.0, 1e-3, 70.0]))
    bounds = (lower, lower + draw(st.sampled_from([1e-3, 0.3, 1.0, 1e4])))
    if kind == "float":
        return cs.Float(name, bounds, log=log)
    if draw(st.booleans()):
        return cs.Float(name, bounds, log=log, distribution=cs.Beta(draw(st.floats(1, 5)), draw(st.floats(1, 5))))
    middle = (bounds[0] + bounds[1]) / 2
    return cs.Float(name, bounds, log=log, distribution=cs.Normal(middle, (bounds[1] - bounds[0]) / 4))


def some_value(draw: Any, hyperparameter: Any) -> Any:
    for attribute in ("choices", "sequence"):
        if hasattr(hyperparameter, attribute):
            return draw(st.sampled_from(getattr(hyperparameter, attribute)))
    if isinstance(hyperparameter, cs.Constant):
        return hyperparameter.value
    lower, upper = hyperparameter.lower, hyperparameter.upper
    return draw(
        st.sampled_from([lower, (lower + upper) // 2 if isinstance(lower, int) else hyperparameter.default_value])
    )


def literal(draw: Any, child: Any, parent: Any, conditional: bool) -> Any:
    kinds = [cs.EqualsCondition, cs.InCondition]
    if not conditional:  # under an inactive parent, ConfigSpace takes NaN != value for true
        kinds.append(cs.NotEqualsCondition)
    if parent.ORDERABLE:
        kinds += [cs.LessThanCondition, cs.GreaterThanCondition]
    kind = draw(st.sampled_from(kinds))
    value = some_value(draw, parent)
    return kind(child, parent, [value, some_value(draw, parent)] if kind is cs.InCondition else value)


def clause(draw: Any, hyperparameter: Any) -> Any:
    kinds = [cs.ForbiddenEqualsClause]
    if hyperparameter.ORDERABLE:
        kinds += [cs.ForbiddenLessThanClause, cs.ForbiddenGreaterThanClause, cs.ForbiddenLessThanEqualsClause]
    return draw(st.sampled_from(kinds))(hyperparameter, some_value(draw, hyperparameter))


RELATIONS = [
    cs.ForbiddenEqualsRelation,
    cs.ForbiddenLessThanRelation,
    cs.ForbiddenLessThanEqualsRelation,
    cs.ForbiddenGreaterThanRelation,
    cs.ForbiddenGreaterThanEqualsRelation,
]


@st.composite
def spaces(draw: Any) -> Space:
    names = [f"p{i}" for i in range(draw(st.integers(1, 7)))]
    made = cs.ConfigurationSpace(space=[draw(hyperparameters(name)) for name in names])
    joined = False
    for i, name in enumerate(names[1:], 1):
        if not draw(st.booleans()):
            continue
        parents = [made[draw(st.sampled_from(names[:i]))] for _ in range(draw(st.integers(1, 2)))]
        parts = [literal(draw, made[name], p, p.name in made.conditional_hyperparameters) for p in parents]
        if len(parts) == 1 or joined:  # ConfigSpace confuses `and` with `or` where a space has both
            made.add(parts[0])
        else:
            made.add(draw(st.sampled_from([cs.AndConjunction, cs.OrConjunction]))(*parts))
            joined = True
    numbers = [name for name in names if hasattr(made[name], "lower")]
    for _ in range(draw(st.integers(0, 2))):
        parts = [clause(draw, made[draw(st.sampled_from(names))]) for _ in range(draw(st.integers(1, 2)))]
        if len(numbers) > 1 and draw(st.booleans()):
            left, right = draw(st.permutations(numbers))[:2]
            parts[0] = draw(st.sampled_from(RELATIONS))(made[left], made[right])
        join = draw(st.sampled_from([cs.ForbiddenAndConjunction, cs.ForbiddenOrConjunction]))
        rule = parts[0] if len(parts) == 1 else join(*parts)
        if not rule.is_forbidden_value(dict(made.get_default_configuration())):  # ConfigSpace insists
            made.add(rule)
    try:
        return Space(made)
    except SpaceError as error:
        assume("must allow some configuration" not in str(error))
        raise


def uniform(space: Space, n: int, seed: int) -> Any:
    return np.random.default_rng(seed).random((n, len(space.numerical) + len(space.categorical)))


@settings(max_examples=120, deadline=None)
@given(spaces(), seeds)
def test_configspace_agrees_on_what_is_active_and_what_is_legal(space: Space, seed: int) -> None:
    points = space.from_quantiles(uniform(space, 10, seed))
    for config, legal in zip(space.decode(points), space.legal(points), strict=True):
        if legal:
            cs.Configuration(space.configuration_space, values=config)  # raises unless exactly the active are set
        else:
            with pytest.raises(cs.ForbiddenValueError):
                cs.Configuration(space.configuration_space, values=config)


@settings(max_examples=60, deadline=None)
@given(spaces(), seeds)
def test_what_configspace_samples_is_accepted(space: Space, seed: int) -> None:
    assume(space.legal(space.from_quantiles(uniform(space, 100, seed))).mean() > 0.2)  # or it may never end
    assume(not re.search("never: .* <= ", repr(space)))  # its vectorised <= is a >=
    space.configuration_space.seed(seed)
    for config in space.configuration_space.sample_configuration(5):
        values = dict(config)
        active = space.configuration_space.get_active_hyperparameters(config)
        assume(values.keys() == active)  # its sampler looks at some parents before they are switched off
        assert space.check(values).keys() == active


@settings(max_examples=60, deadline=None)
@given(spaces(), seeds)
def test_samples_are_legal_and_survive_decoding_and_encoding(space: Space, seed: int) -> None:
    points = space.sample(8, np.random.default_rng(seed))
    assert len(points) == 8
    assert space.legal(points).all()
    configs = space.decode(points)
    again = space.encode(configs)
    np.testing.assert_allclose(again.x, points.x, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(again.h, points.h)
    discrete = np.array([number.levels is not None for number in space.numerical], bool)
    np.testing.assert_array_equal(space.snap(again.x)[:, discrete], points.x[:, discrete])
    for config, checked in zip(configs, map(space.check, configs), strict=True):
        assert list(map(type, checked.values())) == list(map(type, config.values()))
        assert checked == config


@settings(max_examples=40, deadline=None)
@given(spaces(), seeds)
def test_a_space_survives_json_and_pickle(space: Space, seed: int) -> None:
    points = space.from_quantiles(uniform(space, 5, seed))
    for again in (Space.from_json(space.to_json()), pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert repr(again) == repr(space)
        assert again.decode(points) == space.decode(points)
        np.testing.assert_array_equal(again.legal(points), space.legal(points))


@settings(max_examples=40, deadline=None)
@given(spaces(), seeds)
def test_activity_does_not_depend_on_what_stands_in_inactive_places(space: Space, seed: int) -> None:
    whole = space.from_quantiles_full(uniform(space, 5, seed))
    other = space.from_quantiles_full(uniform(space, 5, seed + 1))
    points = space.activate(whole)
    filled = Points(np.where(np.isnan(points.x), other.x, points.x), np.where(points.h < 0, other.h, points.h))
    again = space.activate(filled)
    np.testing.assert_array_equal(again.x, points.x)
    np.testing.assert_array_equal(again.h, points.h)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_value_comes_back_from_its_x(data: Any) -> None:
    log = data.draw(st.booleans())
    scale = data.draw(st.sampled_from([1e-3, 1.0, 1e4]))
    lower = round(data.draw(st.floats(1e-6 if log else -1, 1)) * scale, 12)
    upper = round(lower + data.draw(st.floats(1e-2, 1)) * scale, 12)
    integer = data.draw(st.integers(1 if log else -1000, 1000))
    space = Space(
        {
            "f": cs.Float("f", (lower, upper), log=log),
            "i": cs.Integer("i", (integer, integer + data.draw(st.sampled_from([1, 9, 10**6, 2**39]))), log=log),
            "o": cs.OrdinalHyperparameter("o", list(range(data.draw(st.integers(2, 300))))),
        }
    )
    low, high = (space.configuration_space["f"].lower, space.configuration_space["f"].upper)
    config = {
        "f": data.draw(st.floats(low, high)),
        "i": data.draw(st.integers(*(getattr(space.configuration_space["i"], b) for b in ("lower", "upper")))),
        "o": data.draw(st.integers(0, space.numerical[2].levels - 1)),
    }
    points = space.encode([config])
    assert ((points.x >= 0) & (points.x <= 1)).all()
    [again] = space.decode(points)
    assert again["f"] == pytest.approx(config["f"], rel=1e-12, abs=0 if log else 1e-12 * max(abs(low), abs(high)))
    assert (again["i"], again["o"]) == (config["i"], config["o"])
    np.testing.assert_array_equal(space.snap(points.x)[0, 1:], points.x[0, 1:])


@settings(max_examples=30, deadline=None)
@given(spaces(), st.lists(st.floats(-1, 2) | st.just(np.nan), min_size=7, max_size=7))
def test_snapping_is_idempotent_keeps_nan_and_agrees_with_decoding(space: Space, values: list[float]) -> None:
    x = np.array([values[: len(space.numerical)]])
    snapped = space.snap(x)
    np.testing.assert_array_equal(space.snap(snapped), snapped)
    np.testing.assert_array_equal(np.isnan(snapped), np.isnan(x))
    np.testing.assert_array_equal(space.codes(snapped), space.codes(x))
    np.testing.assert_allclose(space.unit(space.codes(x)), snapped.clip(0, 1), atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(spaces(), st.lists(st.floats(-1e9, 1e9), min_size=7, max_size=7))
def test_a_value_beyond_its_bounds_is_at_the_nearest_of_them(space: Space, values: list[float]) -> None:
    codes = np.array([values[: len(space.numerical)]])
    bounds = space.codes(np.array([[0.0], [1.0]]) * np.ones(len(space.numerical)))
    inside = space.unit(codes.clip(*bounds))
    np.testing.assert_array_equal(space.unit(codes), inside)
    assert ((inside >= 0.0) & (inside <= 1.0)).all()


def test_every_level_and_label_gets_its_full_share() -> None:
    space = Space(
        {
            "i": (1, 4),
            "o": cs.OrdinalHyperparameter("o", ["s", "m", "l"]),
            "c": ["a", "b", "c"],
            "w": cs.Categorical("w", ["a", "b", "c", "d"], weights=[0, 1, 3, 0]),
        }
    )
    n = 1200
    u = np.repeat((np.arange(n)[:, None] + 0.5) / n, 4, axis=1)
    points = space.from_quantiles(u)
    assert np.bincount((points.x[:, 0] * 3).round().astype(int)).tolist() == [300] * 4
    assert np.bincount((points.x[:, 1] * 2).round().astype(int)).tolist() == [400] * 3
    assert np.bincount(points.h[:, 0]).tolist() == [400] * 3
    assert np.bincount(points.h[:, 1]).tolist() == [0, 300, 900]
    assert space.from_quantiles(np.zeros((1, 4))).h[0, 1] == 1, "a label without weight is never drawn"


def test_log_integers_are_log_uniform_over_their_rounding_intervals() -> None:
    n = 100_000
    space = Space({"i": cs.Integer("i", (1, 100), log=True)})
    codes = space.codes(space.from_quantiles((np.arange(n)[:, None] + 0.5) / n).x)[:, 0]
    shares = np.bincount(codes.astype(int), minlength=101)[1:] / n
    edges = np.log(np.arange(100 + 1) + 0.5)
    np.testing.assert_allclose(shares, np.diff(edges) / (edges[-1] - edges[0]), atol=2 / n)


@pytest.mark.parametrize(
    "hyperparameter",
    [
        cs.Float("a", (0.0, 10.0), distribution=cs.Normal(3.0, 4.0)),
        cs.Float("a", (0.0, 10.0), default=0.1, distribution=cs.Normal(-20.0, 4.0)),
        cs.Float("a", (0.0, 10.0), default=9.0, distribution=cs.Normal(25.0, 3.0)),
        cs.Float("a", (1e-4, 1.0), log=True, distribution=cs.Normal(1e-2, 0.3)),
        cs.Float("a", (-1.0, 3.0), distribution=cs.Beta(2, 5)),
        cs.Float("a", (1e-4, 1.0), log=True, distribution=cs.Beta(4, 1.5)),
        cs.Integer("a", (-2, 9), distribution=cs.Normal(3, 2)),
        cs.Integer("a", (1, 40), distribution=cs.Beta(2, 3)),
        cs.Integer("a", (1, 100), log=True, distribution=cs.Normal(20, 2)),
        cs.Integer("a", (1, 100), log=True, distribution=cs.Beta(2, 3)),
    ],
)
def test_priors_are_drawn_as_configspace_draws_them(hyperparameter: Any) -> None:
    space = Space({"a": hyperparameter})
    ours = space.codes(space.sample(4000, np.random.default_rng(0)).x)[:, 0]
    theirs = hyperparameter.sample_value(4000, seed=np.random.RandomState(0))
    assert ks_2samp(ours, theirs).pvalue > 0.01


def test_floats_that_switch_others_are_not_movable_and_levels_have_a_grid() -> None:
    made = cs.ConfigurationSpace(
        {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0), "i": (1, 3), "j": (1, 3), "k": ["x", "y"]}
    )
    made.add(cs.GreaterThanCondition(made["b"], made["a"], 0.5), cs.EqualsCondition(made["a"], made["j"], 2))
    space = Space(made)
    assert [p.name for p in space.numerical] == ["c", "i", "j", "a", "b"]
    assert space.movable.tolist() == [True, False, False, False, True]
    assert [p.conditional for p in space.numerical] == [False, False, False, True, True]
    assert {column: grid.tolist() for column, grid in space.grids.items()} == {1: [0.0, 0.5, 1.0]}
    assert space.order == (0, 1, 2, 5, 3, 4)


def test_points_can_be_picked_and_joined() -> None:
    points = Points(np.array([[0.1], [0.2], [0.3]]), np.array([[0], [1], [2]]))
    parts = [points[np.array([2, 0])], points[1:2], points[np.array([False, False, True])]]
    joined = Points.concatenate(parts)
    assert len(joined) == 4
    assert joined.x[:, 0].tolist() == [0.3, 0.1, 0.2, 0.3]
    assert joined.h[:, 0].tolist() == [2, 0, 1, 2]


def test_an_active_parameter_without_a_value_is_an_internal_error() -> None:
    made = cs.ConfigurationSpace({"a": ["x", "y"], "b": (0.0, 1.0)})
    made.add(cs.EqualsCondition(made["b"], made["a"], "x"))
    with pytest.raises(AssertionError, match="b is active but NaN"):
        Space(made).activate(Points(np.array([[np.nan]]), np.array([[0]])))
