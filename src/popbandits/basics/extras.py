"""Optional libraries and other distributions: a missing one is an error that says what to install."""

import warnings
from functools import cache
from importlib import import_module, util
from types import ModuleType
from typing import Any

from popbandits.errors import MissingExtraError, PopbanditsWarning


def library(name: str, extra: str, user: str = "this") -> Any:
    """Import a module of an optional library.

    >>> library("no_such_library.nn", "sb3", "this agent")
    Traceback (most recent call last):
    ...
    popbandits.errors.MissingExtraError: this agent needs no_such_library; pip install 'popbandits[sb3]'

    Args:
        name: Full name of the module.
        extra: Extra of popbandits that installs it.
        user: Who needs it, for the error. Default "this".
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise _missing([(error.name or name).split(".")[0]], extra, user) from error


def require(*names: str, extra: str, user: str = "this") -> None:
    """Raise an error unless optional libraries are installed, without importing them.

    >>> require("json", "no_such_library", "nor_this", extra="report", user="a report")
    Traceback (most recent call last):
    ...
    popbandits.errors.MissingExtraError: a report needs no_such_library and nor_this; pip install 'popbandits[report]'
    """
    if missing := [name for name in names if util.find_spec(name) is None]:
        raise _missing(missing, extra, user)


def _missing(names: list[str], extra: str, user: str) -> MissingExtraError:
    return MissingExtraError(f"{user} needs {' and '.join(names)}; pip install 'popbandits[{extra}]'")


@cache
def load_plugins(group: str) -> list[ModuleType]:
    """Load the modules that the entry points of a group name; one that fails is left out, with a warning."""
    from importlib.metadata import entry_points  # Slow to import, and few runs need it.

    found = []
    for point in entry_points(group=group):
        try:
            found.append(point.load())
        except Exception as error:  # Whatever a stranger's module raises.
            kind, why = group.rpartition(".")[2], f"{type(error).__name__}: {error}"
            warnings.warn(PopbanditsWarning(f"the {kind} of {point.value} cannot be loaded: {why}"), stacklevel=2)
    return found


def not_installed(name: str, kind: str = "part") -> str:
    """Say how to get what is part of the experiments, another distribution."""
    return (
        f"{name} is {kind} of the experiments, which are not installed; in a checkout of popbandits: "
        "pip install -e . -e ./experiments"
    )
