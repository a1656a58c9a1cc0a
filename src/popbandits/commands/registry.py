"""What a command is, and what several commands need."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from popbandits.errors import PopbanditsError

Command = Callable[[argparse.Namespace], int | None]
"""Does it; the exit status, None for 0."""
Definition = Callable[[argparse.ArgumentParser], Command]

COMMANDS: dict[str, Definition] = {}

STOPPED = 130
"""The exit status of what was stopped by Ctrl-C."""


def command(define: Definition) -> Definition:
    """Make a function a command of its name: it adds its arguments to a parser and returns what to run.

    Its docstring is its help. Whatever is slow to import is imported when it runs, so that help answers at once.
    """
    COMMANDS[define.__name__] = define
    return define


class Parser(argparse.ArgumentParser):
    """Errors that say what is wrong, and where to read on."""

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
        help=f"where files are written ({default})",
    )


def agent_option(parser: argparse.ArgumentParser) -> None:
    """Add `--agent`, for a run whose record cannot say where its own is."""
    parser.add_argument(
        "--agent",
        metavar="MODULE:NAME",
        help="what builds an agent from a seed, also as file.py:name (the one on record)",
    )


def trust_option(parser: argparse.ArgumentParser) -> None:
    """Add `--trust`, for a run that somebody else started."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run whatever code the record names (only popbandits' own, and yours, without it)",
    )


def loaded(where: str | None) -> Any:
    """What `module:name` or `file.py:name` names, its `experiment` if no name is given; None for None."""
    from popbandits.run.recipes import load

    if where is None:
        return None
    named = where if ":" in where and not where.endswith(".py") else f"{where}:experiment"
    return load(named, Path.cwd())


def made(folder: Path) -> Path:
    """The folder, made if need be: a command finds out at its start whether it can write at its end."""
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


def say_where(paths: Sequence[Path]) -> None:
    """Name the files that were written."""
    print("Written:", *paths, sep="\n  ")
