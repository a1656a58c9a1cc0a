"""Optional libraries: a missing one is an error that says what to install."""

from importlib import import_module, util
from typing import Any

from popbandits.errors import MissingExtraError


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
