"""A space as text: everything comes back, with its type."""

import enum
import json
from typing import Any

import pytest
from ConfigSpace import (
    Categorical,
    ConfigurationSpace,
    EqualsCondition,
    ForbiddenInClause,
    InCondition,
    OrdinalHyperparameter,
)

from popbandits.errors import SpaceError
from popbandits.space import Space
from popbandits.space.storage import pack, unpack, unpack_all


class Colour(enum.Enum):
    RED = 1


def shapes(value: Any) -> Any:
    """The value with every type spelt out."""
    return [type(value), list(map(shapes, value))] if isinstance(value, tuple) else (type(value), value)


LABELS = [None, True, 0, 2.0, "1", "true", (1, (2.0, None), ()), ("__tuple__",), float("inf")]


@pytest.mark.parametrize("kind", [Categorical, OrdinalHyperparameter])
def test_labels_keep_their_types(kind: Any) -> None:
    space = Space({"a": kind("a", LABELS), "b": [1], "c": 1.0, "d": True})
    again = Space.from_json(space.to_json())
    kept = (again.categorical or again.numerical)[0].labels
    assert list(map(shapes, kept)) == list(map(shapes, LABELS))
    constants = again.check({"a": None})
    assert [type(constants[name]) for name in "bcd"] == [int, float, bool]


def test_conditions_on_tuples_and_clauses_come_back() -> None:
    made = ConfigurationSpace({"a": [(1, 2), (3, 4), "x"], "b": (0.0, 1.0), "c": (1, 3)})
    made.add(
        EqualsCondition(made["b"], made["a"], (1, 2)),
        InCondition(made["c"], made["a"], [(3, 4), "x"]),
        ForbiddenInClause(made["c"], [3]),
    )
    space = Space(made)
    again = Space.from_json(space.to_json())
    assert repr(again) == repr(space)
    assert again.to_json() == space.to_json()
    assert again.check({"a": (3, 4), "c": 1}) == {"a": (3, 4), "c": 1}


def test_groups_come_back_as_groups_and_dotted_names_as_they_were() -> None:
    space = Space({"net": {"width": (1, 9)}, "a.b": [1, 2]})
    config = {"a.b": 2, "net": {"width": 3}}
    again = Space.from_json(space.to_json())
    assert again.decode(again.encode([config])) == [config]


@pytest.mark.parametrize("label", [print, Colour.RED, int, b"bytes", frozenset({1})])
def test_labels_that_json_cannot_hold_are_refused_only_when_stored(label: Any) -> None:
    space = Space({"a": [label, "x"]})
    assert space.check({"a": label}) == {"a": label}
    with pytest.raises(SpaceError, match=r"'a': JSON holds strings, numbers, .* got .*; use a name"):
        space.to_json()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"space": {}}', '{"space": {"hyperparameters": [1]}, "nested": {}}'])
def test_text_that_is_no_space_is_refused(text: str) -> None:
    with pytest.raises(SpaceError, match=r"must be the text that to_json wrote|a space needs at least one parameter"):
        Space.from_json(text)


def test_a_value_is_packed_for_json_and_back() -> None:
    value = {"a": (1, [2.0, (None,)]), "b": {"c": True}}
    assert unpack(json.dumps(pack(value, "a"))) == value
    with pytest.raises(SpaceError, match="'a': JSON holds"):
        pack({"__tuple__": 1}, "a")


@pytest.mark.parametrize("text", ['{"lr": 0.1}', '{"shape": [3, 3]}', '{"shape": {"__tuple__": [3, 3]}}', "[1, 2]"])
def test_equal_texts_are_read_as_values_of_their_own(text: str) -> None:
    first, other, second = unpack_all([text, '{"lr": 0.2}', text])
    assert first == second == unpack(text)
    assert other == {"lr": 0.2}
    assert first is not second
    if "shape" in first and type(first["shape"]) is list:
        assert first["shape"] is not second["shape"]
