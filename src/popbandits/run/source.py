"""Record digests of a run's code and the name of its space, so that a resume notices that they were edited.

A resume trains with today's code, on the recorded space and with the recorded settings. Digests are of the agent's file
and of the user's own modules that it imports, without comments and blank lines. Code of popbandits, of Python and of
installed packages has none.
"""

import ast
import hashlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any

from popbandits.basics.wording import visible
from popbandits.space import Space

FOREIGN = {"popbandits", "popbandits_experiments", *sys.stdlib_module_names}
"""Packages whose code is not the user's."""

INSTALLED = {"site-packages", "dist-packages"}
"""Folders of installed packages."""


def source_of(make_agent: Any, space: Any) -> dict[str, Any]:
    """Return what to record of the code of a run: digests of the agent's files, and the name of its space."""
    module = _module(make_agent)
    if module is None:
        return {}
    found = {"source": _digests(module), "space_name": _name(module, space)}
    return {key: value for key, value in found.items() if value}


def differences(about: Mapping[str, Any], recorded: Space, make_agent: Any) -> list[str]:
    """Say, a sentence each, how today's code and space differ from the record; runs without digests differ in nothing.

    Args:
        about: Metadata of the run.
        recorded: Space of the run.
        make_agent: The agent with which it is resumed.
    """
    module = _module(make_agent)
    if module is None:
        return []
    now, before = _digests(module), about.get("source", {})
    said = []
    if edited := [name for name in now if before.get(name, now[name]) != now[name]]:
        have = "has" if len(edited) == 1 else "have"
        said.append(
            f"{visible(', '.join(edited))} {have} changed since the run was last started: from here on it trains with "
            "today's code, on the recorded space and with the recorded settings; for others, start a new run"
        )
    name = about.get("space_name", "")
    today = _find(module, name)
    if today is not None and today.to_json() != recorded.to_json():
        one, other = ({each.name: str(each) for each in (*s.numerical, *s.categorical)} for s in (recorded, today))
        differ = [key for key in one | other if one.get(key) != other.get(key)]
        which = f" in {', '.join(differ)}" if differ else ""
        said.append(
            f"{visible(name)} in {Path(str(module.__file__)).name} differs from the recorded space{visible(which)}: "
            "the run keeps the recorded one; for another, start a new run (its start= may be the folder of this one)"
        )
    return said


def _module(make_agent: Any) -> ModuleType | None:
    """Return the user's module that defines an agent; None if it has no file, or is not the user's."""
    while isinstance(make_agent, partial):
        make_agent = make_agent.func
    where = make_agent if hasattr(make_agent, "__qualname__") else type(make_agent)
    module = sys.modules.get(getattr(where, "__module__", None) or "")
    return module if module is not None and _file(module) is not None else None


def _file(module: ModuleType) -> Path | None:
    """Return the file of a user's module; None if it is another's, or has none."""
    path = Path(getattr(module, "__file__", None) or "")
    if module.__name__.partition(".")[0] in FOREIGN or path.suffix != ".py":
        return None
    return path.resolve()


def _digests(module: ModuleType) -> dict[str, str]:
    """Map a module's file, and the files of the user's modules that it imports, to digests of their code."""
    first = _file(module)
    assert first is not None  # `_module` has checked it.
    root = first.parents[module.__name__.count(".") + hasattr(module, "__path__")]
    found: dict[str, str] = {}
    left = [module]
    while left:
        each = left.pop()
        path = _file(each)
        if path is None or not path.is_relative_to(root) or (path != first and INSTALLED & set(path.parts)):
            continue
        name = path.relative_to(root).as_posix()
        if name not in found:
            with suppress(OSError, SyntaxError, ValueError):  # It cannot be read, or is being edited.
                code = path.read_bytes()
                found[name] = _digest(code)
                left += _imported(each, ast.parse(code))
    return found


def _imported(module: ModuleType, tree: ast.Module) -> Iterator[ModuleType]:
    """Yield the modules that a module's code imports and that are loaded."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # A relative import in a script that is no package.
                base = resolve_name("." * node.level + (node.module or ""), module.__package__)
                names += [base, *(f"{base}.{each.name}" for each in node.names)]
    yield from (sys.modules[name] for name in names if name in sys.modules)


def _digest(code: bytes) -> str:
    lines = (line.rstrip() for line in code.splitlines())
    kept = b"\n".join(line for line in lines if line and not line.lstrip().startswith(b"#"))
    return hashlib.sha256(kept).hexdigest()


def _name(module: ModuleType, space: Any) -> str | None:
    """Return the name of a space in a module, its own or that of an experiment's attribute; None if it has none."""
    for name, value in vars(module).items():
        if value is space:
            return name
        if _own_space(value) is space:
            return f"{name}.space"
    return None


def _own_space(value: Any) -> Any:
    """Return the space that an object such as an experiment holds; None if it holds none."""
    return getattr(value, "__dict__", {}).get("space")


def _find(module: ModuleType, name: str) -> Space | None:
    """Return the space of that name in a module; None if there is none by now."""
    first, _, attribute = name.partition(".")
    value = vars(module).get(first)
    if attribute:
        value = _own_space(value)
    if value is None or callable(value):
        return None
    try:
        return Space(value)
    except (TypeError, ValueError):
        return None
