"""Recipes: the name or import path of a function, a class or an explorer, and its settings, to build it again later.

A record has recipes of a run's agent, method and selection. Methods and selections of popbandits are recorded by their
names (`methods`), everything else by its import path. Building them runs code, so a record alone may only name what
popbandits and installed distributions offer for that (`is_ours`), and what this account recorded for this run itself
(`signing`). Anything else needs the caller's permission: `trust=True`, `--trust`, or the agent, the method and the
selection themselves.
"""

import json
import shlex
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from popbandits.basics.extras import load_plugins, not_installed
from popbandits.basics.wording import visible
from popbandits.errors import ArgumentError, PopbanditsError, RunError, SpaceError
from popbandits.explorers import Explorer
from popbandits.methods import in_experiments, load_class, recorded_names, registered
from popbandits.run.signing import Signer, is_same
from popbandits.selection import Selection
from popbandits.space.storage import pack, unpack

Recipe = dict[str, Any]
Role = Literal["agent", "method", "selection"]
KINDS = ("import", "make", "partial", "name")
IMPORTING = ContextVar("importing", default="")
"""Module or file that is being imported for what is in it, or nothing."""


def recipe(value: Any) -> Recipe | None:
    """Return the recipe of a function or class, a dataclass object, or a partial of keywords; None if there is none.

    >>> from popbandits.explorers import PBT
    >>> prepare(recipe(PBT()), "method") == PBT()
    True
    >>> recipe(lambda seed: None) is None
    True
    """
    kind, settings, role = "import", {}, _role(value)
    parts: dict[str, Recipe | None] = {}
    if _is_object(value):
        settings = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        kind, value = "make", type(value)
        parts = {name: _part(part, role) for name, part in settings.items() if _is_object(part)}
        settings = {name: part for name, part in settings.items() if name not in parts}
    elif isinstance(value, partial) and not value.args:
        kind, value, settings = "partial", value.func, value.keywords
    where = address(value)
    if where is None or None in parts.values():
        return None
    own = next((name for name, path in recorded_names(role) if path == where), None) if kind == "make" else None
    try:
        plain = {"settings": pack(settings, "settings")} | ({"parts": parts} if parts else {})
    except SpaceError:  # Some values are not plain.
        return None
    return {kind: where, **plain, "root": _root(value)} if own is None else {"name": own, **plain}


def _role(value: Any) -> Role:
    """Return the role of what is recorded: explorers and selections may be registered by name."""
    return "method" if isinstance(value, Explorer) else "selection" if isinstance(value, Selection) else "agent"


def _part(value: Any, role: Role) -> Recipe | None:
    """Return the recipe of a setting; with its role if it is registered under another one than its holder's."""
    given, own = recipe(value), _role(value)
    return given if given is None or own == role or "name" not in given else given | {"role": own}


def signed(given: Recipe | None, signer: Signer) -> Recipe | None:
    """Return a recipe with this account's signature, and parts with theirs, unless popbandits ships what it names."""
    if given is None:
        return None
    kind, where, _, _ = _parts(given)
    parts = {name: signed(part, signer) for name, part in given.get("parts", {}).items()}
    given = given | ({"parts": parts} if parts else {})
    text = None if any(is_ours(role, kind, where) for role in get_args(Role)) else signer.recipe(given)
    return given if text is None else given | {"signed": text}


def is_shipped(agent: Any) -> bool:
    """Tell whether an agent is one that popbandits ships: those unpickle nothing."""
    given = recipe(agent)
    return given is not None and is_ours("agent", *_parts(given)[:2])


def _is_object(value: Any) -> bool:
    """Tell whether a value is an object of a dataclass, rather than the class itself."""
    return is_dataclass(value) and not isinstance(value, type)


def prepare(given: Any, role: Role, trust: bool = False, signer: Signer | None = None) -> Any:
    """Build the object of a recipe; raise Untrusted unless it may be built, RunError if the recipe is invalid.

    It may be built if popbandits ships it, with `trust`, or if `signer` finds this account's signature.
    """
    kind, where, settings, root = _parts(given)
    parts = given.get("parts", {})
    if (own := registered(role, kind, where)) is not None:
        loaded = load_class(own[1])
    elif (name := in_experiments(role, kind, where)) is not None:
        raise RunError(not_installed(name))
    elif kind == "name":
        raise RunError(f"this version of popbandits has no {role} {where!r:.200}")
    elif is_ours(role, kind, current(where)):
        loaded = load(current(where))
    else:
        content = {name: value for name, value in given.items() if name != "signed"}
        if not (trust or (signer is not None and is_same(signer.recipe(content), given.get("signed")))):
            raise Untrusted(where, root)
        if Path(root).is_absolute() and root not in sys.path:  # At the end, so that it hides nothing.
            sys.path.append(root)
        loaded = load(where)
    made = {name: prepare(part, _role_of_part(part, role), trust, signer) for name, part in parts.items()}
    keywords = unpack(json.dumps(settings)) | made
    if kind == "import":
        return loaded
    if kind == "partial":
        return partial(loaded, **keywords)
    if isinstance(loaded, type) and issubclass(loaded, Explorer | Selection):
        keywords = {**loaded.earlier, **keywords}
    return loaded(**keywords)


def _role_of_part(part: Any, role: Role) -> Role:
    """Return the role under which a part is registered: its own, or that of its holder."""
    own = part.get("role", role) if isinstance(part, dict) else role
    return own if own in ("method", "selection") else role


class Untrusted(PopbanditsError):
    """A record names code that may not be run without permission."""

    def __init__(self, where: str, root: str):
        super().__init__(where, root)
        self.where, self.root = where, root


def _parts(given: Any) -> tuple[str, str, dict[str, Any], str]:
    """Split a recipe into its kind, its name or import path, the settings, and the folder to import from."""
    if isinstance(given, dict) and len(named := [kind for kind in KINDS if kind in given]) == 1:
        where, settings = given[named[0]], given.get("settings")
        root = "" if named[0] == "name" else given.get("root")
        parts = given.get("parts", {})
        if isinstance(where, str) and isinstance(settings, dict) and isinstance(root, str) and isinstance(parts, dict):
            return named[0], where, settings, root
    raise RunError(
        f"a recipe has one of {', '.join(KINDS)}, settings, root unless it has a name, and perhaps parts, "
        f"got {given!r:.200}"
    )


def on_record(
    about: Mapping[str, Any], role: Role, run: Path, command: str, trust: bool = False, signer: Signer | None = None
) -> Any:
    """Build the agent, method or selection of a run from its record; raise RunError if it needs permission.

    Args:
        about: Metadata of the run.
        role: Which of the three to build.
        run: Folder of the run.
        command: `resume` or `replay`, for the command in the error.
        trust: Whether the record may name any code.
        signer: The run's, which finds this account's signatures.
    """
    give = f"give it with {role}=" + (", or with --agent file.py:make_agent" if role == "agent" else "")
    if about.get(role) is None:
        raise RunError(f"a run needs its {role}, and {run} does not say where that can be imported from; {give}")
    try:
        return prepare(about[role], role, trust, signer)
    except Untrusted as asked:
        typed = shlex.join(["popbandits", command, str(run)])
        own = f", or with your own agent: {typed} --agent FILE.py:NAME" if role == "agent" else ""
        raise RunError(
            f"{run} names {_shown(asked.where)} (from {_shown(asked.root)}) as its {role}: that is not part of "
            f"popbandits, nor was it recorded by this account for this run, so it is not run unasked. If you trust the "
            f"folder, or began the run with an earlier version: "
            f"{typed} --trust{own} (in Python: trust=True, or {role}=)"
        ) from None
    except ArgumentError as error:
        raise RunError(
            f"a run needs its {role}, and that of {run} is not where it was: {error.__cause__ or error}; {give}"
        ) from error
    except (PopbanditsError, TypeError) as error:  # TypeError: unknown settings.
        raise RunError(f"a run needs its {role}, and that of {run} cannot be made: {visible(str(error))}") from error


def _shown(text: str) -> str:
    """Make text of a record safe to show: shortened, without control characters."""
    return visible(text[:200]) or "an empty name"


def address(value: Any) -> str | None:
    """Return the name `module:name` from which a value can be imported again; None if it cannot be."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module not in sys.modules or not name or "<" in name:
        return None
    if module == "__main__":  # A script is imported by its path.
        script = getattr(sys.modules["__main__"], "__file__", None)
        return f"{Path(script).resolve()}:{name}" if script and Path(script).is_file() else None  # It may be "<stdin>".
    return f"{module}:{name}"


AGENTS = "popbandits.agents"
"""Entry points of other distributions. Each names a module that may have AGENTS, which any record may name, and MOVED,
which maps the beginning of older addresses to today's."""

LEFT = ("popbandits.rl.", "popbandits.paper.")
"""Packages of popbandits in older records, which some agents have left for other distributions."""


def is_ours(role: Role, kind: str, where: str) -> bool:
    """Tell whether any record may name this code, because popbandits ships it for that."""
    if role != "agent":
        return registered(role, kind, where) is not None
    package = _package(where)
    modules = [import_module(package)] if package else load_plugins(AGENTS)
    return any((kind, where) in getattr(module, "AGENTS", ()) for module in modules)


def current(where: str) -> str:
    """Return the current address for an address in an older record.

    >>> current("popbandits.rl.ppo:PPO")
    'popbandits.rl.ppo:PPO'
    """
    if where.startswith(LEFT):
        for module in load_plugins(AGENTS):
            for before, now in getattr(module, "MOVED", {}).items():
                if where.startswith(before):
                    return f"{now}{where.removeprefix(before)}"
    return where


def _package(where: str) -> str | None:
    """Return the package in popbandits of an address, if there is such a module."""
    parts = where.partition(":")[0].split(".")[:2]
    if parts[0] != "popbandits" or len(parts) < 2 or not all(part.isidentifier() for part in parts):
        return None
    return ".".join(parts) if find_spec(".".join(parts)) else None


def _root(value: Any) -> str:
    """Return the folder from which a value's module was imported."""
    module = sys.modules[value.__module__]
    inside = module.__name__.count(".") + hasattr(module, "__path__")
    return str(Path(getattr(module, "__file__", None) or "").resolve().parents[inside])


def load(where: str, search: Path | None = None) -> Any:
    """Import what `module:name` or `file.py:name` names; a module is looked for in `search` first, if given."""
    module, _, name = where.rpartition(":")
    if not module or not name:
        raise ArgumentError(f"give it as module:name or file.py:name, got {where!r}")
    token = IMPORTING.set(module)
    try:
        value: Any = _import(module, search)
    except ImportError as error:
        fix = "give a module, or the path of a .py file"
        raise ArgumentError(f"{module!r} cannot be imported: {error}; {fix}") from error
    finally:
        IMPORTING.reset(token)
    for part in name.split("."):
        if not hasattr(value, part):
            raise ArgumentError(f"{module!r} has no {name!r}; give the name of something in it")
        value = getattr(value, part)
    return value


def _import(module: str, search: Path | None) -> Any:
    """Import a module by its dotted name, or a file; a file's folder is added to the path, as if it had been run."""
    path = Path(module)
    if path.suffix != ".py":
        if search is not None and str(search) not in sys.path:
            sys.path.insert(0, str(search))
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
