"""Store values and spaces as JSON without loss: tuples stay tuples; 1, 1.0 and True stay distinct."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import ConfigSpace as cs

from popbandits.errors import SpaceError
from popbandits.space.build import Paths, unbox

_TUPLE = "__tuple__"
_LEAVES = frozenset({bool, int, float, str, type(None)})


def pack(value: Any, name: str) -> Any:
    """Convert a value to types that JSON holds; SpaceError, with the parameter's name, if that is impossible.

    >>> pack({"kernel": (3, 3)}, "conv")
    {'kernel': {'__tuple__': [3, 3]}}
    """
    value = unbox(value)
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is tuple:
        return {_TUPLE: [pack(item, name) for item in value]}
    if type(value) is list:
        return [pack(item, name) for item in value]
    if type(value) is dict and _TUPLE not in value and all(type(key) is str for key in value):
        return {key: pack(item, name) for key, item in value.items()}
    raise SpaceError(
        f"{name!r}: JSON holds strings, numbers, booleans, None and tuples of them, got {value!r}; "
        "use a name and look the object up in the training code"
    )


def unpack(text: str) -> Any:
    """Return the value whose `json.dumps(pack(value, name))` is `text`.

    >>> unpack('{"kernel": {"__tuple__": [3, 3]}}')
    {'kernel': (3, 3)}
    """
    return _DECODER.decode(text)


def unpack_all(texts: Sequence[str], tuples: bool = True) -> list[Any]:
    """Unpack many texts, ten times as fast as one by one if they are small; ValueError if one is not JSON.

    Args:
        tuples: True if `pack` wrote them; False to parse them as `json.loads` does.

    >>> unpack_all(['{"kernel": {"__tuple__": [3, 3]}}', "{}"])
    [{'kernel': (3, 3)}, {}]
    """
    distinct = dict.fromkeys(texts)
    values = _parse(distinct, tuples)
    if len(distinct) == len(texts):
        return values
    if not all(type(value) is dict and _LEAVES.issuperset(map(type, value.values())) for value in values):
        return _parse(texts, tuples)
    known = dict(zip(distinct, values, strict=True))
    return [known[text].copy() for text in texts]  # Most configurations repeat the round before.


def _parse(texts: Collection[str], tuples: bool) -> list[Any]:
    """Parse all texts in one call."""
    joined = f"[{','.join(texts)}]"
    values: list[Any] = (_DECODER if tuples and _TUPLE in joined else _PLAIN).decode(joined)
    if len(values) != len(texts):
        raise ValueError(f"{len(texts)} texts hold {len(values)} values")
    return values


_PLAIN = json.JSONDecoder()
_DECODER = json.JSONDecoder(object_hook=lambda item: tuple(item[_TUPLE]) if _TUPLE in item else item)


def dumps(space: cs.ConfigurationSpace, paths: Paths, schedules: Mapping[str, Sequence[float]]) -> str:
    """Serialise a space, with the paths of the names that were written nested, and its schedules if it has any."""
    described = space.to_serialized_dict()
    for part in described["hyperparameters"]:
        pack(part, part["name"])  # first, so that an error names the parameter
    nested = {name: path for name, path in paths.items() if path != (name,)}
    extra = {"schedules": {name: list(table) for name, table in schedules.items()}} if schedules else {}
    return json.dumps(pack({"space": described, "nested": nested, **extra}, "space"))


def loads(text: str) -> tuple[cs.ConfigurationSpace, Paths, dict[str, tuple[float, ...]]]:
    """Read what `dumps` wrote; the paths leave out flat names."""
    try:
        stored = unpack(text)
        schedules = {name: tuple(map(float, table)) for name, table in stored.get("schedules", {}).items()}
        return cs.ConfigurationSpace.from_serialized_dict(stored["space"]), dict(stored["nested"]), schedules
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise SpaceError(f"a stored space must be the text that to_json wrote, got {text!r:.60}: {error!r}") from error
