"""Configurations in, configurations out: either form, native types, and errors that name the culprit."""

from typing import Any

import numpy as np
import pytest
from ConfigSpace import (
    AndConjunction,
    Categorical,
    ConfigurationSpace,
    Constant,
    EqualsCondition,
    Float,
    ForbiddenAndConjunction,
    ForbiddenEqualsClause,
    ForbiddenGreaterThanRelation,
    GreaterThanCondition,
    LessThanCondition,
    NotEqualsCondition,
    OrConjunction,
    OrdinalHyperparameter,
)

from popbandits.errors import SpaceError
from popbandits.space import Points, Space

NESTED = {
    "optimizer": {"lr": (0.1, 1.0), "kind": {"name": ["sgd", "adam"]}},
    "depth": (1, 5),
    "dotted.name": 3,
}
AS_WRITTEN = {"optimizer": {"lr": 0.5, "kind": {"name": "adam"}}, "depth": 2, "dotted.name": 3}
FLAT = {"depth": 2, "dotted.name": 3, "optimizer.kind.name": "adam", "optimizer.lr": 0.5}


def test_groups_become_dotted_names_and_come_back_as_groups() -> None:
    space = Space(NESTED)
    assert space.check(AS_WRITTEN) == space.check(FLAT) == space.flatten(AS_WRITTEN) == FLAT
    assert space.decode(space.encode([AS_WRITTEN, FLAT])) == [AS_WRITTEN, AS_WRITTEN]
    assert space.nest(FLAT) == AS_WRITTEN


def test_a_space_written_flat_is_decoded_flat_also_with_dots() -> None:
    space = Space({"net.width": (1, 9), "net.act": ["relu", "tanh"]})
    flat, nested = {"net.width": 3, "net.act": "relu"}, {"net": {"width": 3, "act": "relu"}}
    assert space.decode(space.encode([flat, nested])) == [flat, flat]


def conditional() -> Space:
    """A chain kind -> depth -> width, an `or` over two parents, a conditional constant and two clauses."""
    made = ConfigurationSpace(
        {
            "kind": ["mlp", "cnn", "none"],
            "depth": (1, 5),
            "width": (8, 64),
            "drop": (0.0, 1.0),
            "rate": Float("rate", (1e-3, 1.0), log=True),
            "note": Constant("note", "deep"),
            "extra": ["a", "b"],
            "tag": ["x", "y"],
        }
    )
    made.add(
        NotEqualsCondition(made["depth"], made["kind"], "none"),
        GreaterThanCondition(made["width"], made["depth"], 2),
        EqualsCondition(made["note"], made["depth"], 5),
        OrConjunction(
            AndConjunction(
                LessThanCondition(made["extra"], made["rate"], 0.1),
                EqualsCondition(made["extra"], made["kind"], "mlp"),
            ),
            NotEqualsCondition(made["extra"], made["depth"], 1),
        ),
        ForbiddenAndConjunction(ForbiddenEqualsClause(made["kind"], "cnn"), ForbiddenEqualsClause(made["tag"], "y")),
        ForbiddenGreaterThanRelation(made["rate"], made["drop"]),
    )
    return Space(made)


BASE = {"kind": "mlp", "drop": 0.9, "rate": 0.5, "tag": "x", "depth": 1}


@pytest.mark.parametrize(
    ("change", "active"),
    [
        ({}, set()),
        ({"rate": 0.05, "extra": "a"}, {"extra"}),
        ({"depth": 3, "width": 9, "extra": "a"}, {"width", "extra"}),
        ({"depth": 5, "width": 9, "extra": "b"}, {"width", "extra", "note"}),
    ],
)
def test_only_active_parameters_are_given_and_returned(change: dict[str, Any], active: set[str]) -> None:
    space = conditional()
    checked = space.check(BASE | change)
    assert checked.keys() == BASE.keys() | active
    [decoded] = space.decode(space.encode([BASE | change]))
    assert decoded.pop("rate") == pytest.approx(checked.pop("rate"), rel=1e-12)
    assert decoded == checked


def test_an_inactive_parent_switches_its_children_off_whatever_they_ask_of_it() -> None:
    space = conditional()
    off = {name: value for name, value in BASE.items() if name != "depth"} | {"kind": "none"}
    assert space.check(off) == off  # `extra` would be on if NaN != 1 counted
    points = space.from_quantiles(np.full((1, 7), 0.99))
    assert space.decode(points)[0].keys() == off.keys()


BAD = {
    "not a dict": ([0.5], r"a configuration is a dict, got \[0.5\]; name its values"),
    "unknown": (BASE | {"lr": 1}, r"'lr': a value needs a parameter, got 1; there are drop, kind, rate, tag"),
    "missing": (
        {"kind": "none"},
        r"'drop': an active parameter needs a value, got \{'kind': 'none'\}; add it",
    ),
    "missing child": (BASE | {"depth": 3, "extra": "a"}, r"'width': an active parameter needs a value"),
    "inactive": (BASE | {"width": 9}, r"'width': a value is given only if depth > 2, got \{.*\}; drop it"),
    "inactive constant": (BASE | {"note": "deep"}, r"'note': a value is given only if depth == 5"),
    "inactive choice": (
        BASE | {"extra": "a"},
        r"'extra': a value is given only if \(\(rate < 0.1 && kind == 'mlp'\) \|\| depth != 1\)",
    ),
    "wrong constant": (
        BASE | {"note": "shallow"},
        r"'note': the value must be one of \('deep',\), got 'shallow'",
    ),
    "below": (BASE | {"drop": -0.1}, r"'drop': the value must be in \[0.0, 1.0\], got -0.1; clip it"),
    "above": (BASE | {"depth": 6}, r"'depth': the value must be in \[1, 5\], got 6; clip it"),
    "NaN": (BASE | {"drop": float("nan")}, r"'drop': the value must be in \[0.0, 1.0\], got nan"),
    "float for integer": (
        BASE | {"depth": 2.0},
        r"'depth': the value must be an integer, got 2.0; convert it",
    ),
    "boolean for integer": (BASE | {"depth": True}, r"'depth': the value must be an integer, got True"),
    "boolean for float": (BASE | {"drop": True}, r"'drop': the value must be a number, got True"),
    "string for float": (BASE | {"drop": "0.5"}, r"'drop': the value must be a number, got '0.5'"),
    "unknown label": (
        BASE | {"tag": "z"},
        r"'tag': the value must be one of \('x', 'y'\), got 'z'",
    ),
    "unhashable label": (BASE | {"tag": ["x"]}, r"'tag': the value must be one of \('x', 'y'\), got \['x'\]"),
    "forbidden pair": (
        BASE | {"kind": "cnn", "tag": "y"},
        r"\(kind == 'cnn' && tag == 'y'\) is forbidden, got \{'kind': 'cnn'.*\}; change one of these values",
    ),
    "forbidden relation": (BASE | {"drop": 0.4}, r"rate > drop is forbidden, got \{'kind'"),
    "given twice": ({"a.b": 1, "a": {"b": 2}}, r"'a.b': a value is given once, got it flat and nested"),
}


@pytest.mark.parametrize(("config", "message"), BAD.values(), ids=BAD)
def test_a_configuration_that_breaks_a_rule_is_refused_with_a_reason(config: Any, message: str) -> None:
    space = conditional()
    with pytest.raises(SpaceError, match=message):
        space.check(config)
    with pytest.raises(SpaceError, match=message):
        space.encode([BASE, config])


@pytest.mark.parametrize(
    ("labels", "given", "meant"),
    [
        ((1.0, 2.0), 1, 1.0),
        ((1, 2), np.int64(2), 2),
        ((1, 2), 2.0, 2),
        ((True, False), np.bool_(False), False),
        (("a", "b"), np.str_("b"), "b"),
        (((1, 2), None), (1, 2), (1, 2)),
        ((1, 2), True, None),
        ((True, False), 1, None),
        ((0.0, 2.0), False, None),
    ],
)
@pytest.mark.parametrize("kind", [Categorical, OrdinalHyperparameter])
def test_labels_match_by_equality_but_a_boolean_is_not_a_number(kind: Any, labels: Any, given: Any, meant: Any) -> None:
    space = Space({"a": kind("a", list(labels))})
    if meant is None:
        with pytest.raises(SpaceError, match=r"'a': the value must be one of"):
            space.check({"a": given})
    else:
        checked = space.check({"a": given})["a"]
        assert checked == meant
        assert type(checked) is type(meant)


def test_decoded_values_have_the_declared_types_and_the_labels_are_the_users_own() -> None:
    label = ("own", 1)
    space = Space({"f": (0, 1.0), "i": (0, 9), "c": [label, print], "o": OrdinalHyperparameter("o", [np.int64(3), 4])})
    [config] = space.decode(Points(np.array([[0.25, 0.5, 0.0]]), np.array([[0]])))
    assert [type(config[name]) for name in "fio"] == [float, int, int]
    assert config["c"] is label


def test_values_on_the_bounds_stay_on_the_bounds() -> None:
    space = Space({"a": Float("a", (1e-5, 1e-3), log=True), "b": (0.1, 0.3), "c": (1 / 3, 2 / 3)})
    ends = space.decode(Points(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]), np.empty((2, 0), int)))
    assert [(end["a"], end["b"]) for end in ends] == [(1e-5, 0.1), (1e-3, 0.3)]
    # ConfigSpace rounds the bound 1/3 down and 2/3 up; both are still values that the user may give.
    assert space.encode([{"a": 1e-5, "b": 0.3, "c": 1 / 3}, {"a": 1e-5, "b": 0.3, "c": 2 / 3}]).x[
        :, 2
    ] == pytest.approx([0.0, 1.0], abs=1e-12)


def test_a_value_on_a_threshold_keeps_its_side_on_the_way_through_x() -> None:
    made = ConfigurationSpace(
        {"a": (0.1, 0.7), "b": Float("b", (1e-4, 7.0), log=True), "c": (0.05, 0.9), "d": [1, 2], "e": (0, 1)}
    )
    made.add(
        LessThanCondition(made["d"], made["a"], 0.3),
        GreaterThanCondition(made["e"], made["b"], 0.3),
        ForbiddenGreaterThanRelation(made["a"], made["c"]),
    )
    space = Space(made)
    for value in np.linspace(0.1, 0.7, 61):
        config = {"a": float(value), "b": 0.3, "c": float(value)} | ({"d": 1} if value < 0.3 - 1e-9 else {})
        decoded = space.decode(space.encode([config]))
        assert space.check(decoded[0]).keys() == config.keys()
        assert space.legal(space.encode(decoded)).all()


def test_an_integer_just_outside_a_long_range_is_outside() -> None:
    space = Space({"seed": (0, 2**40)})
    assert space.check({"seed": 2**40}) == {"seed": 2**40}
    with pytest.raises(SpaceError, match=r"'seed': the value must be in \[0, 1099511627776\], got 1099511627777"):
        space.check({"seed": 2**40 + 1})


def test_no_configuration_makes_no_point() -> None:
    points = conditional().encode([])
    assert (points.x.shape, points.h.shape) == ((0, 4), (0, 3))
    assert conditional().decode(points) == []


MIXED = ConfigurationSpace(
    {"lr": Float("lr", (1e-5, 1e-1), log=True), "depth": (1, 7), "act": ["relu", "tanh"], "bias": [True, False], "c": 3}
)
MIXED.add(OrdinalHyperparameter("size", ["small", "medium", "large"]))


def test_many_configurations_are_encoded_as_each_by_itself() -> None:
    space = Space(MIXED)
    configs = space.decode(space.sample(200, np.random.default_rng(0)))
    configs[7]["lr"] = 1e-1 + 1e-14  # within what ConfigSpace rounds away
    together, alone = space.encode(configs), Points.concatenate([space.encode([config]) for config in configs])
    np.testing.assert_array_equal(together.x, alone.x)
    np.testing.assert_array_equal(together.h, alone.h)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"lr": 0.2}, {"lr": float("nan")}, {"lr": "0.1"}, {"depth": 2.0}, {"depth": 8}, {"depth": 10**400}),
        *({"act": 1}, {"act": {}}, {"bias": 1}, {"c": 4}, {"size": "huge"}, {"other": 1}),
    ],
    ids=str,
)
def test_one_wrong_configuration_among_many_is_refused_as_it_is_alone(wrong: dict[str, Any]) -> None:
    space = Space(MIXED)
    right = space.decode(space.sample(3, np.random.default_rng(0)))
    with pytest.raises((OverflowError, SpaceError)) as alone:
        space.encode([right[1] | wrong])
    with pytest.raises(alone.type) as among:
        space.encode([right[0], right[1] | wrong, right[2]])
    assert str(among.value) == str(alone.value)
