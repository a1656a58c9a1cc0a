"""Define a command, and functions that several commands share."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from popbandits.basics.wording import suggestion

Command = Callable[[argparse.Namespace], int | None]
"""Runs a command and returns its exit status; None for 0."""
Definition = Callable[[argparse.ArgumentParser], Command]
"""Adds the arguments of a command to a parser, and returns what to run; its docstring is the command's help.

Slow imports happen when the command runs, so that help prints at once."""

STOPPED = 130
"""Exit status after Ctrl-C."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors say what is wrong, and point to the help."""

    def __init__(self, **settings: Any):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse unknown arguments; a command does so itself, so that its own help is named."""
        known, others = super().parse_known_args(args, namespace)
        if others:
            option = others[0].partition("=")[0]
            close = suggestion(option, self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(others)}{close}")
        return known, others

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message}\nSee: {self.prog} --help\n")


def code_options(parser: argparse.ArgumentParser) -> None:
    """Add `--agent`, for a run whose record does not name its agent, and `--trust`, for one that someone else began."""
    parser.add_argument(
        "--agent",
        metavar="FILE[:NAME]",
        help="an Experiment, or a function that builds an agent: train.py:make_agent, module:name (the recorded one)",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run any code that the record names, and load any checkpoint (without it: only popbandits' own and yours)",
    )


def load_named(where: str | None) -> Any:
    """Load the object `module:name` or `file.py:name`; without a name, its `experiment`; None for None."""
    from popbandits.run.recipes import load

    if where is None:
        return None
    named = where if ":" in where and not where.endswith(".py") else f"{where}:experiment"
    return load(named, Path.cwd())


def load_agent(where: str | None) -> Any:
    """Load what builds an agent, which an `Experiment` holds; None for None."""
    from popbandits.run import Experiment

    found = load_named(where)
    return found.agent if isinstance(found, Experiment) else found


def print_written(paths: Sequence[Path]) -> None:
    """Print the paths of the files that were written."""
    print("Written:", *paths, sep="\n  ")
