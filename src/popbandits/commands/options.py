"""The settings of a run as options of the command line."""

import argparse
import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from popbandits.basics.settings import ENGINES, SETTINGS, flags_of
from popbandits.methods import METHODS, PARTS, SELECTIONS, choose

if TYPE_CHECKING:
    from popbandits.run import Experiment

_SECTION = re.compile(r"^Args:\n((?:    .*\n|\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def read_args(docstring: str) -> dict[str, str]:
    """Return the texts of a docstring's "Args:" section, by argument, each on one line.

    >>> read_args("Climb.\\n\\nArgs:\\n    height: Height to reach,\\n        in metres.\\n    rope: Rope.")
    {'height': 'Height to reach, in metres.', 'rope': 'Rope.'}
    """
    section = _SECTION.search(f"{docstring}\n")
    return {} if section is None else {name: " ".join(text.split()) for name, text in _ENTRY.findall(section[1])}


def _read_texts() -> dict[str, str]:
    """Read the texts of the settings from the source of `Experiment`: to import it takes longer than help may."""
    source = Path(__file__).parents[1] / "run" / "experiment.py"
    classes = (node for node in ast.parse(source.read_text("utf-8")).body if isinstance(node, ast.ClassDef))
    return read_args(next(ast.get_docstring(each) or "" for each in classes if each.name == "Experiment"))


TEXTS = _read_texts()
"""Text of each setting."""
NAMES: Mapping[str, Any] = {"method": METHODS, "selection": SELECTIONS, "engine": ENGINES}
"""Names that a setting takes, by setting."""


def add_options(parser: argparse.ArgumentParser, resumes: bool) -> None:
    """Add the options of the settings that a resume may change, or of those that a run keeps."""
    add = parser.add_argument_group(f"settings that {'a resume may change' if resumes else 'a run keeps'}").add_argument
    for name, setting in SETTINGS.items():
        if setting.option is None or setting.resumes != resumes:
            continue
        (parse, metavar), flags = setting.option, flags_of(name)
        if parse is bool:
            add(flags[0], dest=name, action="store_const", const=True, help=_help(name))
            add(flags[1], dest=name, action="store_const", const=False, help=f"the opposite of {flags[0]}")
        else:
            add(*flags, type=parse, metavar=metavar, help=_help(name))


def _help(name: str) -> str:
    """Return the first clause of a setting's text, and the names it takes."""
    clause = re.split(r"[:.](?:\s|$)", TEXTS[name])[0].removeprefix("Whether ").replace("%", "%%")
    return clause[:1].lower() + clause[1:] + (f": one of {', '.join(NAMES[name])}" if name in NAMES else "")


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that were given as options."""
    return {name: value for name in SETTINGS if (value := getattr(arguments, name, None)) is not None}


def apply_options(experiment: "Experiment", arguments: argparse.Namespace) -> "Experiment":
    """Return the experiment with the options that were given; ArgumentError if one of them is wrong."""
    given = given_settings(arguments)
    if not given.keys().isdisjoint(PARTS):
        parts = choose(**{name: getattr(experiment, name) for name in PARTS}, changes=given)
        given |= vars(parts) | {"quantile": None}
    experiment = experiment.changed(**given)
    _ = experiment.plan  # Raises if one of them is wrong.
    return experiment
