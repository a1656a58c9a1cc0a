"""How to get a function, a class or an explorer back later: where it is imported from, and its settings."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from popbandits.errors import ArgumentError, RunError, SpaceError
from popbandits.space.storage import pack, unpack

Recipe = dict[str, Any]


def recipe(value: Any) -> Recipe | None:
    """How to get `value` back, in plain values: a function or class, a dataclass object, or a partial of keywords.

    >>> from popbandits.explorers import PBT
    >>> prepare(recipe(PBT())) == PBT()
    True
    >>> recipe(lambda seed: None) is None
    True
    """
    kind, settings = "import", {}
    if is_dataclass(value) and not isinstance(value, type):
        kind, value, settings = "make", type(value), {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    elif isinstance(value, partial) and not value.args:
        kind, value, settings = "partial", value.func, value.keywords
    where = address(value)
    try:
        return None if where is None else {kind: where, "settings": pack(settings, "settings"), "root": _root(value)}
    except SpaceError:  # Not all of it is plain.
        return None


def prepare(given: Recipe) -> Any:
    """What a recipe was made of."""
    settings = unpack(json.dumps(given["settings"]))
    if given["root"] not in sys.path:  # Last, so that it can be found and hides nothing.
        sys.path.append(given["root"])
    if "make" in given:
        return load(given["make"])(**settings)
    return partial(load(given["partial"]), **settings) if "partial" in given else load(given["import"])


def on_record(about: Mapping[str, Any], name: str, run: Path) -> Any:
    """The agent, the method or the selection of a run, by what is known of the run."""
    give = f"give it with {name}=" + (", or with --agent file.py:make_agent" if name == "agent" else "")
    if about.get(name) is None:
        raise RunError(f"a run needs its {name}, and {run} does not say where that can be imported from; {give}")
    try:
        return prepare(about[name])
    except ArgumentError as error:
        raise RunError(
            f"a run needs its {name}, and that of {run} is not where it was: {error.__cause__ or error}; "
            f"call it from the folder where the run was started, or {give}"
        ) from error


def address(value: Any) -> str | None:
    """The name `module:name` from which something can be imported again; None if it cannot be."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not name or "<" in name:
        return None
    if module == "__main__":  # The script that was run, by the name under which it can be imported.
        script = getattr(sys.modules["__main__"], "__file__", None)
        return f"{Path(script).resolve()}:{name}" if script else None
    return f"{module}:{name}"


def _root(value: Any) -> str:
    """The folder from which its module was imported."""
    module = sys.modules[value.__module__]
    inside = module.__name__.count(".") + hasattr(module, "__path__")
    return str(Path(getattr(module, "__file__", None) or "").resolve().parents[inside])


def load(where: str) -> Any:
    """What `module:name` or `file.py:name` names."""
    module, _, name = where.rpartition(":")
    if not module or not name:
        raise ArgumentError(f"give it as module:name or file.py:name, got {where!r}")
    try:
        value: Any = _import(module)
    except ImportError as error:
        fix = "give a module, or the path of a .py file"
        raise ArgumentError(f"{module!r} cannot be imported: {error}; {fix}") from error
    for part in name.split("."):
        if not hasattr(value, part):
            raise ArgumentError(f"{module!r} has no {name!r}; give the name of something in it")
        value = getattr(value, part)
    return value


def _import(module: str) -> Any:
    """A module by its dotted name, or a file; a file's folder becomes importable, as if it had been run."""
    path = Path(module)
    if path.suffix != ".py":
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        return import_module(module)
    if not path.is_file():
        raise ImportError(f"there is no file {path}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    loaded = import_module(path.stem)
    if Path(str(loaded.__file__)).resolve() != path.resolve():
        raise ImportError(f"the name {path.stem} is taken by {loaded.__file__}; rename the file")
    return loaded
