"""`popbandits resume`."""

import argparse
from pathlib import Path

from popbandits.commands import options
from popbandits.commands.registry import Command, agent_option, command, loaded, trust_option
from popbandits.commands.run import summary
from popbandits.errors import ArgumentError


@command
def resume(parser: argparse.ArgumentParser) -> Command:
    """Go on with a run that was stopped or killed, as if it had never stopped.

    What it did is read from its folder, and what comes next is what would have
    come. `--rounds` gives a finished run more to do.

    A record names the code that trains. What popbandits ships, and what you started
    yourself, is run; a folder that you were sent needs --trust, or --agent.
    """
    parser.add_argument("run", type=Path, metavar="RUN", help="its folder")
    agent_option(parser)
    trust_option(parser)
    parser.add_argument("--callbacks", metavar="MODULE:NAME", help="a list of callbacks, also as file.py:name (none)")
    options.add_options(parser, resumes=True)

    def start(arguments: argparse.Namespace) -> int | None:
        from popbandits.run import Experiment
        from popbandits.run import resume as resume_it
        from popbandits.storage import Store

        try:
            changes = options.given_settings(arguments) | {"agent": loaded(arguments.agent)}
            changes["callbacks"] = loaded(arguments.callbacks)
            with Store.open(arguments.run, readonly=True) as store:
                Experiment.recorded(store, arguments.trust, **changes)
        except ArgumentError as error:
            parser.error(str(error))
        return summary(resume_it(arguments.run, trust=arguments.trust, **changes).directory)

    return start
