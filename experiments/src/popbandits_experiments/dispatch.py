"""Command lines of several commands, each in a module of its own."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

from popbandits.errors import PopbanditsError

Commands = Mapping[str, tuple[str, str]]
"""Module and help by name. A module has `add_arguments(parser)` and `main(options)`, and is imported when called."""


def dispatch(program: str, description: str | None, commands: Commands, arguments: Sequence[str] | None) -> int:
    """Run the command that is named first, and return the exit status; a foreseen error is printed as one line."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(prog=program, description=description)
    parsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (module, text) in commands.items():
        command = parsers.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name in given[:1]:
            loaded = import_module(module)
            loaded.add_arguments(command)
            command.set_defaults(main=loaded.main)
    options = parser.parse_args(given)
    try:
        options.main(options)
    except PopbanditsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
