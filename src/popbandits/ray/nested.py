"""Access to nested dicts by path: the keys that lead to a value."""

from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]
"""The keys that lead to a value."""


def is_grid(value: Any) -> bool:
    """Tell whether a dict is `tune.grid_search(...)`, which is one value."""
    return isinstance(value, Mapping) and value.keys() == {"grid_search"}


def leaves(part: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """List the values of a nested dict.

    >>> dict(leaves({"lr": 0.1, "net": {"depth": 3}}))
    {('lr',): 0.1, ('net', 'depth'): 3}
    """
    for key, value in part.items():
        if isinstance(value, Mapping) and not is_grid(value):
            yield from leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


def find(part: Any, path: Path) -> Any:
    """Return the value at a path."""
    for key in path:
        part = part[key]
    return part
