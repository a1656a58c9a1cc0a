"""Former names of public classes, functions and methods: they work for a version, with a warning."""

import warnings
from collections.abc import Mapping


def present_name(owner: str, former: Mapping[str, str], name: str) -> str:
    """Return the name that replaced a former one, and warn; raise AttributeError if there is none.

    For `__getattr__` of a module or a class, which Python calls for names that do not exist.

    Args:
        owner: Name of the module or class.
        former: Present names, by former name.
        name: Name that was asked for.
    """
    if name not in former:
        raise AttributeError(f"{owner} has no attribute {name!r}")
    warnings.warn(f"{owner}.{name} is deprecated; use {former[name]}", DeprecationWarning, stacklevel=3)
    return former[name]
