"""Methods compared on real training: `python -m popbandits_experiments.ground --help` lists the commands."""

import argparse
import sys
from importlib import import_module

from popbandits.errors import PopbanditsError

COMMANDS = {
    "run": ("popbandits_experiments.ground.run", "train populations on real tasks and store the results"),
    "headroom": (
        "popbandits_experiments.ground.study",
        "measure what the usual settings leave to gain on a task, or print what was measured",
    ),
    "cost": ("popbandits_experiments.ground.cost", "time the parts of a round and compare them to their floors"),
    "table": (
        "popbandits_experiments.ground.tables",
        "print the tables of the stored results, or write them into a docs page",
    ),
    "pairs": (
        "popbandits_experiments.ground.pairs",
        "compare two methods seed by seed, with and without evaluation noise",
    ),
    "arms": (
        "popbandits_experiments.ground.arms",
        "print every method beside a baseline on the same seeds: scores, differences and cost",
    ),
    "figures": ("popbandits_experiments.ground.figures", "draw the figures of the stored results"),
}
"""Name, module and help. A module has `add_arguments(parser)` and `main(options)`, and is imported when called."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m popbandits_experiments.ground", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
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


if __name__ == "__main__":
    raise SystemExit(main())
