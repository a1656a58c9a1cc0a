"""Registration of commands, and functions that several commands share."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from popbandits.errors import PopbanditsError

Command = Callable[[argparse.Namespace], int | None]
"""Runs a command and returns its exit status; None for 0."""
Definition = Callable[[argparse.ArgumentParser], Command]

COMMANDS: dict[str, Definition] = {}

STOPPED = 130
"""Exit status after Ctrl-C."""


def command(define: Definition) -> Definition:
    """Register a function as the command of its name: it adds arguments to a parser and returns what to run.

    Its docstring is its help. Slow imports happen when the command runs, so that help prints at once.
    """
    COMMANDS[define.__name__] = define
    return define


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors say what is wrong, and point to the help."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message}\nSee: {self.prog} --help\n")


def output(parser: argparse.ArgumentParser, default: Path) -> None:
    """Add `-o` for a folder."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=default,
        metavar="DIR",
        help=f"folder to write to ({default})",
    )


def agent_option(parser: argparse.ArgumentParser) -> None:
    """Add `--agent`, for a run whose record does not name its agent."""
    parser.add_argument(
        "--agent",
        metavar="MODULE:NAME",
        help="function that builds an agent from a seed, also as file.py:name (the recorded one)",
    )


def trust_option(parser: argparse.ArgumentParser) -> None:
    """Add `--trust`, for a run that someone else started."""
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


def make_folder(folder: Path) -> Path:
    """Make a folder unless it exists, and check before the work begins that it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = None if os.access(folder, os.W_OK) else "permission denied"
    except FileExistsError:
        reason = "it is a file"
    except OSError as error:
        reason = str(error.strerror).lower()
    if reason:
        raise PopbanditsError(f"cannot write to the folder {folder}: {reason}; give another with -o")
    return folder


def print_written(paths: Sequence[Path]) -> None:
    """Print the paths of the files that were written."""
    print("Written:", *paths, sep="\n  ")
