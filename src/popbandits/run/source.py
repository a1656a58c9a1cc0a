"""Record digests of an agent's code and the versions of libraries, so that a resume notices what has changed.

A resume trains with today's code, on the recorded space and with the recorded settings. Digests are of the agent's file
and of the loaded modules beside it, without comments and blank lines. Code of popbandits and of Python has none, but a
version, as every loaded library that says one.
"""

import hashlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from platform import python_version
from types import ModuleType
from typing import Any

from popbandits.basics.wording import visible

FOREIGN = {"popbandits", "popbandits_experiments", *sys.stdlib_module_names}
"""Packages whose code is not the user's."""


def source_of(make_agent: Any) -> dict[str, str]:
    """Map the file of an agent, and the files of loaded modules in its folder, to digests; {} if it is not a user's."""
    while isinstance(make_agent, partial):
        make_agent = make_agent.func
    where = make_agent if hasattr(make_agent, "__qualname__") else type(make_agent)
    module = sys.modules.get(getattr(where, "__module__", None) or "")
    if module is None or module.__name__.partition(".")[0] in FOREIGN or (own := _file(module)) is None:
        return {}
    root = own.parents[module.__name__.count(".") + hasattr(module, "__path__")]
    found = {}
    beside = (_file(each, own.parent.name) for each in list(sys.modules.values()))
    for path in sorted({path for path in beside if path is not None and path.parent == own.parent}):
        with suppress(OSError):  # It is gone.
            found[path.relative_to(root).as_posix()] = _digest(path.read_bytes())
    return found


def versions() -> dict[str, str]:
    """Map Python, and the libraries that are imported, to their versions.

    >>> {"python", "popbandits", "numpy"} <= versions().keys()
    True
    """
    found = {"python": python_version()}
    for name, module in sorted(sys.modules.items()):
        # Thousands of modules are loaded. What a lazy module would import to answer is left alone.
        own = name.partition(".")[0] == name and name not in sys.stdlib_module_names and not name.startswith("_")
        version = getattr(module, "__dict__", {}).get("__version__") if own else None
        if isinstance(version, str):
            found[name] = str(version)  # PyTorch's is of a class of its own.
    return found


def differences(about: Mapping[str, Any], make_agent: Any) -> list[str]:
    """Say, a sentence each, which files of an agent and which libraries are not what its run recorded."""
    said = []
    if edited := _changed(about.get("source", {}), source_of(make_agent)):
        said.append(
            f"{visible(', '.join(edited))} {'has' if len(edited) == 1 else 'have'} changed since the run was last "
            "started: from here on it trains with today's code, on the recorded space and with the recorded settings; "
            "for others, start a new run"
        )
    return said + updated(about)


def updated(about: Mapping[str, Any]) -> list[str]:
    """Say, in a sentence or none, which libraries are not of the versions that a run recorded."""
    before, now = about.get("versions", {}), versions()
    if not (changed := _changed(before, now)):
        return []
    names = ", ".join(f"{name} was {before[name]} and is {now[name]}" for name in changed)
    return [visible(f"a seed may give other numbers than before, since libraries have changed: {names}")]


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [name for name in now if before.get(name, now[name]) != now[name]]


def _file(module: ModuleType, within: str = "") -> Path | None:
    """Return the file of a module's code; None if it has none, or if it cannot be in a folder of the name `within`.

    Thousands of modules are loaded, and a path of each would take longer than many a decision.
    """
    file = getattr(module, "__dict__", {}).get("__file__") or ""
    if isinstance(file, str) and within.lower() not in file.lower():  # Windows has one file for both.
        return None
    path = Path(file)
    return path if path.suffix == ".py" else None


def _digest(code: bytes) -> str:
    lines = (line.rstrip() for line in code.splitlines())
    kept = b"\n".join(line for line in lines if line and not line.lstrip().startswith(b"#"))
    return hashlib.sha256(kept).hexdigest()
