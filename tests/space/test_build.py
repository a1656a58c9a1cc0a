"""What a user may write as a space, and what is said when it cannot be one."""

import math
from typing import Any

import numpy as np
import pytest
from ConfigSpace import (
    Categorical,
    CategoricalHyperparameter,
    ConfigurationSpace,
    Constant,
    EqualsCondition,
    Float,
    ForbiddenEqualsClause,
    ForbiddenGreaterThanClause,
    ForbiddenLessThanClause,
    ForbiddenLessThanRelation,
    Integer,
    Normal,
    OrdinalHyperparameter,
)
from ConfigSpace.hyperparameters import Hyperparameter

from popbandits.errors import SpaceError
from popbandits.space import Space


def test_a_plain_dict_says_floats_integers_choices_and_constants() -> None:
    space = Space({"lr": (0.1, 1.0), "depth": (1, 10), "aug": ["crop", "flip"], "seed": 7, "name": None})
    assert [(p.name, p.kind, p.levels) for p in space.numerical] == [
        ("depth", "integer", 10),
        ("lr", "float", None),
    ]
    assert [(p.name, p.labels, p.weights) for p in space.categorical] == [("aug", ("crop", "flip"), (0.5, 0.5))]
    assert space.names == tuple(space.configuration_space)


@pytest.mark.parametrize("bounds", [(0, 1.0), (0.0, 1), (np.float32(0), 1), (np.int64(0), np.float64(1))])
def test_one_float_bound_makes_a_range_of_floats(bounds: tuple[Any, Any]) -> None:
    [parameter] = Space({"a": bounds}).numerical
    assert (parameter.kind, parameter.lower, parameter.upper) == ("float", 0.0, 1.0)


def test_numpy_integers_make_an_integer_range() -> None:
    assert Space({"a": (np.int64(1), np.int32(3))}).numerical[0].levels == 3


def test_configspace_objects_and_spaces_are_taken_as_they_are() -> None:
    written = {
        "a": Float("a", (1e-4, 1.0), log=True),
        "b": Integer("b", (1, 8)),
        "c": Categorical("c", ["x", "y"], weights=[1, 3]),
        "d": OrdinalHyperparameter("d", ["s", "m", "l"]),
    }
    for space in (Space(written), Space(ConfigurationSpace(written))):
        assert [(p.name, p.kind, p.log) for p in space.numerical] == [
            ("a", "float", True),
            ("b", "integer", False),
            ("d", "ordinal", False),
        ]
        assert space.categorical[0].weights == (0.25, 0.75)


def test_a_space_of_a_space_is_the_same_space() -> None:
    space = Space({"net": {"a": (0.0, 1.0)}})
    again = Space(space)
    assert again.configuration_space is space.configuration_space
    assert again.nest({"net.a": 0.5}) == {"net": {"a": 0.5}}


@pytest.mark.parametrize("name", ["lr", "optimizer.lr"])
def test_an_object_in_a_group_is_named_by_its_key_or_in_full(name: str) -> None:
    given = Float(name, (0.1, 1.0))
    assert Space({"optimizer": {"lr": given}}).names == ("optimizer.lr",)
    assert given.name == name, "the user's own object must not change"


def test_what_cannot_vary_is_decoded_but_not_encoded() -> None:
    space = Space({"a": (0.0, 1.0), "b": ["only"], "c": 3, "d": OrdinalHyperparameter("d", [1.5])})
    points = space.encode([{"a": 0.5}])
    assert (points.x.shape, points.h.shape) == ((1, 1), (1, 0))
    assert space.decode(points) == [{"a": 0.5, "b": "only", "c": 3, "d": 1.5}]


def test_the_representation_reads_like_the_space() -> None:
    made = ConfigurationSpace({"lr": Float("lr", (0.1, 1.0), log=True), "n": (1, 3), "o": ["a", None], "k": 1})
    made.add(EqualsCondition(made["n"], made["o"], "a"), ForbiddenEqualsClause(made["lr"], 1.0))
    assert repr(Space(made)).split("\n") == [
        "Space(",
        "  k: always 1",
        "  lr: float [0.1, 1.0] log",
        "  o: one of 'a', None",
        "  n: integer [1, 3]",
        "  n: only if o == 'a'",
        "  never: lr == 1.0",
        ")",
    ]


def altered(lower: float) -> dict[str, Any]:
    hyperparameter = Float("a", (0.5, 1.0), log=True)
    hyperparameter.lower = lower
    return {"a": hyperparameter}


class Odd(Hyperparameter[Any, Any]):
    def __init__(self) -> None:
        self.name = "a"


BAD = {
    "nothing": ({}, r"a space needs at least one parameter, got none; write"),
    "no parameter": (ConfigurationSpace(), r"a space needs at least one parameter, got none"),
    "a list": ([Float("a", (0, 1))], r"a space is a dict or a ConfigurationSpace, got \[.*\]; write"),
    "an empty group": ({"net": {}}, r"'net': a group needs a parameter, got \{\}; drop it"),
    "a space in a group": (
        {"net": ConfigurationSpace({"a": (0, 1)})},
        r"'net': a group is a dict, got a ConfigurationSpace; join the two",
    ),
    "a name that is no string": ({"net": {1: (0, 1)}}, r"'net': a name is a string that is not empty, got 1"),
    "an empty name": ({"": (0, 1)}, r"'space': a name is a string that is not empty, got ''; rename it"),
    "a name used twice": ({"a.b": 1, "a": {"b": 2}}, r"'a.b': a name is used once, got it flat and nested"),
    "a parameter and a group": (
        {"a": 1, "a.b.c": (0, 1)},
        r"'a.b.c': a parameter cannot also be a group, got 'a' as well; rename one",
    ),
    "another name": (
        {"a": Float("b", (0.0, 1.0))},
        r"'a': a hyperparameter must be named like its key, got one named 'b'; make the two equal",
    ),
    "reversed bounds": ({"a": (1.0, 0.1)}, r"'a': the lower bound comes first, got \(1.0, 0.1\); swap"),
    "equal bounds": ({"a": (3, 3)}, r"'a': the bounds must differ, got \(3, 3\); write the bare value"),
    "NaN": ({"a": (0.0, math.nan)}, r"'a': bounds must be finite, got \(0.0, nan\); give the largest"),
    "infinity": ({"a": (0, math.inf)}, r"'a': bounds must be finite, got \(0.0, inf\)"),
    "a log range at zero": (
        altered(0.0),
        r"'a': a log range must be above zero, got \(0.0, 1.0\); raise the lower bound, or use a linear range",
    ),
    "bounds too close": (
        {"a": (0.0, 1e-15)},
        r"'a': ConfigSpace keeps 13 decimals of a bound, got \(0.0, 1e-15\)",
    ),
    "a huge integer": ({"a": (0, 2**50)}, r"'a': an integer may be at most 2\*\*40 in size, got \(0, 11258"),
    "three bounds": (
        {"a": (0, 1, 2)},
        r"'a': a tuple is a range \(lower, upper\) of two numbers, got \(0, 1, 2\)",
    ),
    "a tuple of labels": (
        {"a": ("x", "y")},
        r"'a': a tuple is a range .* got \('x', 'y'\); write a list for choices",
    ),
    "a tuple of booleans": ({"a": (False, True)}, r"'a': a tuple is a range .* got \(False, True\)"),
    "no choice": ({"a": []}, r"'a': a list of choices needs a label, got \[\]; add one"),
    "a label twice": (
        {"a": ["x", "y", "x"]},
        r"'a': labels must differ, got 'x' and 'x', which are equal; drop",
    ),
    "True beside 1": ({"a": [1, "x", True]}, r"'a': labels must differ, got 1 and True, which are equal"),
    "False beside 0": ({"a": [0, "a", False]}, r"'a': labels must differ, got 0 and False, which are equal"),
    "a label that is a list": ({"a": [[1], [2]]}, r"'a': a value must be hashable, got \[1\]; use a tuple"),
    "an object with such labels": (
        {"a": CategoricalHyperparameter("a", [[1], [2]])},
        r"'a': a value must be hashable, got \[1\]",
    ),
    "a NaN label": ({"a": [1.0, math.nan]}, r"'a': a value must not be NaN or a dict, got nan"),
    "a set": ({"a": {"x", "y"}}, r"'a': choices are a list, a range is a tuple and a constant is one value"),
    "a constant that is a list": ({"a": Constant("a", [1])}, r"'a': a value must be hashable, got \[1\]"),
    "a kind of one's own": (
        {"a": Odd()},
        r"'a': a hyperparameter is one of ConfigSpace's own, got Odd; use Float, Integer, Categorical",
    ),
    "a rule": (
        {"a": ForbiddenEqualsClause(Integer("b", (0, 1)), 0)},
        r"'a': a dict holds parameters only, got the rule Forbidden: b == 0; make a ConfigurationSpace",
    ),
    "a nested dict taken for a constant": (
        ConfigurationSpace({"net": {"a": (0, 1)}}),
        r"'net': a constant is one value, got the dict \{'a': \(0, 1\)\}; pass the nested dict itself",
    ),
    "a normal far from its bounds": (
        {"a": Float("a", (0.0, 1.0), default=0.5, distribution=Normal(99.0, 0.1))},
        r"'a': a normal distribution needs mass within its bounds, got mu=99.0, sigma=0.1",
    ),
}


@pytest.mark.parametrize(("space", "message"), BAD.values(), ids=BAD)
def test_a_space_that_cannot_be_used_is_refused_with_a_reason(space: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        Space(space)


def test_clauses_that_leave_almost_nothing_are_refused() -> None:
    made = ConfigurationSpace({"a": (0, 10**9)})
    middle = made["a"].default_value
    made.add(ForbiddenLessThanClause(made["a"], middle), ForbiddenGreaterThanClause(made["a"], middle))
    with pytest.raises(SpaceError, match=r"must allow some configuration, got 1\d{4} forbidden draws in a row"):
        Space(made)


def test_a_relation_between_words_and_numbers_is_refused() -> None:
    made = ConfigurationSpace({"a": [9, "x"], "b": (0, 3)})  # ConfigSpace looks at the defaults only
    made.add(ForbiddenLessThanRelation(made["a"], made["b"]))
    with pytest.raises(SpaceError, match=r"a < b: the two must be comparable, but '<' not supported between"):
        Space(made)
