"""Imports of the libraries that adapters need, with an error that says what to install."""

from importlib import import_module
from typing import Any

from popbandits.errors import MissingExtraError


def library(name: str, extra: str, user: str = "this adapter") -> Any:
    """Import a module of an optional library.

    >>> library("no_such_library.nn", "sb3")
    Traceback (most recent call last):
    ...
    popbandits.errors.MissingExtraError: this adapter needs no_such_library; pip install 'popbandits[sb3]'

    Args:
        name: Full name of the module.
        extra: Extra of popbandits that installs it.
        user: Who needs it, for the error. Default "this adapter".
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{user} needs {(error.name or name).split('.')[0]}; pip install 'popbandits[{extra}]'"
        ) from error
