"""`popbandits resume`."""

import argparse
from pathlib import Path

from popbandits.commands import options
from popbandits.commands.registry import Command, agent_option, command, loaded
from popbandits.commands.run import summary
from popbandits.errors import ArgumentError


@command
def resume(parser: argparse.ArgumentParser) -> Command:
    """Go on with a run that was stopped or killed, as if it had never stopped.

    What it did is read from its folder, and what comes next is what would have
    come. `--rounds` gives a finished run more to do.
    """
    parser.add_argument("run", type=Path, metavar="RUN", help="its folder")
    agent_option(parser)
    options.how(parser)

    def start(arguments: argparse.Namespace) -> int | None:
        from popbandits.engines import Experiment
        from popbandits.engines import resume as resume_it
        from popbandits.history import Store

        try:
            changes = {"agent": loaded(arguments.agent)} | options.changes(arguments)
            with Store.open(arguments.run, readonly=True) as store:
                Experiment.recorded(store, **changes)
        except ArgumentError as error:
            parser.error(str(error))
        return summary(resume_it(arguments.run, **changes).directory)

    return start
