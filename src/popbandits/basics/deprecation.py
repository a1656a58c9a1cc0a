"""Former names and homes of public classes, functions and methods: they work for a version, with a warning."""

import warnings
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any

from popbandits.basics.extras import not_installed
from popbandits.errors import MissingExtraError

MOVED = {
    "BGPBT": "bg-pbt",
    "MFPBT": "mf-pbt",
    "Patient": "patient",
    "PatientPBT": "patient-pbt",
    "Restarts": "ipbt",
    "Smoothed": "smoothed",
    "TTest": "t-test",
}
"""Classes that popbandits once had and the experiments have now, with their names."""


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


def moved(
    owner: str, name: str, package: str = "popbandits_experiments.methods", names: Collection[str] = MOVED.keys()
) -> Any:
    """Return what has moved to the experiments, with a warning; MissingExtraError if they are not installed.

    For `__getattr__` of a module that had it.

    Args:
        owner: Name of the module that had it.
        name: Name that was asked for.
        package: Module that has it now.
        names: Names that have moved there; others are an AttributeError.
    """
    if name not in names:
        raise AttributeError(f"module {owner!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(package), name)
    except ImportError as error:
        raise MissingExtraError(not_installed(f"{owner}.{name}")) from error
    warnings.warn(f"{owner}.{name} is deprecated; use {package}.{name}", DeprecationWarning, stacklevel=3)
    return found
