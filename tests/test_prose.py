"""Docstrings of functions begin with a verb, for they say what the function does; texts of arguments with a noun."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import popbandits
from popbandits.commands.options import read_args

SOURCES = (Path(popbandits.__file__).parent, Path(__file__).parents[1] / "experiments" / "src")

NOT_VERBS = (
    *("What", "Who", "Whose", "Whom", "Where", "When", "Which", "Whether", "How", "Why"),
    *("Of", "As", "The", "A", "An", "Those", "These", "One", "Every", "All"),
)

ORDERS = (
    *("Build", "Call", "Change", "Choose", "Count", "Decide", "Draw", "End", "Fit", "Give", "Keep", "Let", "Limit"),
    *("Load", "Make", "Name", "Pass", "Print", "Put", "Raise", "Read", "Record", "Return", "Save", "Say", "Scale"),
    *("Seed", "Select", "Set", "Show", "Start", "Stop", "Take", "Tell", "Train", "Try", "Use", "Write"),
)
ORDER = re.compile(rf"(?:{'|'.join(ORDERS)})(?= (?!of |that |for |in )\w)", re.IGNORECASE)
"""A verb and its object; "Name of the run" and "Seed." are nouns."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_bad_docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the first line of each docstring that does not begin with a verb."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function) and not is_exempt(node):
            first_line = (ast.get_docstring(node) or "").partition("\n")[0]
            if first_line.split(" ")[0].strip(",.:;") in NOT_VERBS:
                yield node.body[0].lineno, first_line


def is_exempt(function: Function) -> bool:
    """Tell whether a function is a property, whose docstring is a noun phrase, or an overload."""
    names = {getattr(each, "attr", getattr(each, "id", "")) for each in function.decorator_list}
    return not names.isdisjoint({"property", "cached_property", "setter", "overload"})


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    found = [
        f"{file.relative_to(source.parent)}:{line}: {first}"
        for source in SOURCES
        for file in sorted(source.rglob("*.py"))
        for line, first in find_bad_docstrings(file.read_text(encoding="utf-8"))
    ]
    assert not found, "begin these docstrings with a verb:\n" + "\n".join(found)


def find_orders(text: str) -> Iterator[str]:
    """Yield the argument and the text of each argument that is described by what the reader is to do."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function | ast.ClassDef):
            texts = read_args(ast.get_docstring(node) or "")
            yield from (f"{name}: {text}" for name, text in texts.items() if ORDER.match(text))


def test_arguments_are_described_by_noun_phrases() -> None:
    found = [
        f"{file.relative_to(source.parent)}: {text}"
        for source in SOURCES
        for file in sorted(source.rglob("*.py"))
        for text in find_orders(file.read_text(encoding="utf-8"))
    ]
    assert not found, "say what these arguments are:\n" + "\n".join(found)


def test_an_argument_described_by_an_order_is_found() -> None:
    text = '''
class Store:
    """The records of a run.

    Args:
        size: Set the size.
        name: Name of the run.
        seed: Seed.
        rounds: Limit how many rounds
            are kept.
        make: build it.
        set: Set of labels.
    """
'''
    assert list(find_orders(text)) == [
        "size: Set the size.",
        "rounds: Limit how many rounds are kept.",
        "make: build it.",
    ]


def test_a_docstring_without_a_verb_is_found() -> None:
    text = '''
class Store:
    """The records of a run."""

    @property
    def size(self):
        """The number of records."""

    def load(self):
        """Whether it loads.

        More.
        """

    async def close(self):
        """Close the file."""


def all_records():
    def inner():
        """The inner one."""
'''
    assert list(find_bad_docstrings(text)) == [(10, "Whether it loads."), (21, "The inner one.")]
