"""`popbandits resume`."""

import argparse
from pathlib import Path

from popbandits.commands import options
from popbandits.commands.registry import Command, code_options, load_agent, load_named
from popbandits.commands.run import print_summary


def resume(parser: argparse.ArgumentParser) -> Command:
    """Resume a run that was stopped or killed, as if it had never stopped.

    Its past is read from its folder, and it continues as it would have without the
    stop. `--rounds` extends a finished run.

    A record names the code that trains. Code of popbandits and runs that you started
    need nothing more; a folder from someone else needs --trust or --agent.
    """
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run")
    code_options(parser)
    parser.add_argument("--callbacks", metavar="MODULE:NAME", help="a list of callbacks, also as file.py:name (none)")
    options.add_options(parser, resumes=True)

    def start(arguments: argparse.Namespace) -> int | None:
        from popbandits.run.tune import Resumption

        changes = options.given_settings(arguments) | {"agent": load_agent(arguments.agent)}
        changes["callbacks"] = load_named(arguments.callbacks)
        return print_summary(Resumption(arguments.run, arguments.trust, **changes).run())

    return start
