"""Docstrings that describe every argument, with each text written once."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Target = TypeVar("Target")

_SECTION = re.compile(r"^Args:\n((?:    .*\n|\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def read_args(described: Any) -> dict[str, str]:
    """Return the texts of a docstring's "Args:" section, by argument; a mapping holds them already.

    >>> read_args(read_args)
    {}
    >>> read_args(complete_args)["others"]
    'Functions, classes or mappings to copy texts from; the first that has a text provides it.'
    """
    if isinstance(described, Mapping):
        return dict(described)
    section = _SECTION.search(f"{inspect.getdoc(described) or ''}\n")
    return {} if section is None else dict(_ENTRY.findall(section[1]))


def complete_args(*others: Any) -> Callable[[Target], Target]:
    """Complete the "Args:" section of a function or class with texts of others, in the order of its signature.

    Its own texts take precedence. So a subclass, or a function that passes its arguments on, describes only its own
    arguments, and `help` shows all.

    Args:
        others: Functions, classes or mappings to copy texts from; the first that has a text provides it.
    """

    def complete(target: Target) -> Target:
        if target.__doc__ is None:  # python -OO
            return target
        texts: dict[str, str] = {}
        for described in (target, *others):
            texts = read_args(described) | texts
        lines = [f"    {name}: {texts[name]}" for name in inspect.signature(target).parameters if name in texts]  # type: ignore[arg-type]
        rest = _SECTION.sub("", f"{inspect.cleandoc(target.__doc__)}\n").rstrip()
        target.__doc__ = "\n".join([rest, "", "Args:", *lines, ""])
        return target

    return complete
