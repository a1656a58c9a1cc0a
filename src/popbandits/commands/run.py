"""`popbandits run`."""

import argparse
from pathlib import Path

from popbandits.commands import options
from popbandits.commands.registry import STOPPED, Command, command, loaded
from popbandits.errors import ArgumentError


@command
def run(parser: argparse.ArgumentParser) -> Command:
    """Run an experiment: tune the agent of your file, from the start.

    An experiment is an object in a file or module of yours:

      from popbandits import Experiment
      experiment = Experiment(make_agent, space, population=4, rounds=50)

    Give the file, and the object's name unless that is `experiment`. The options
    below stand above what the object says.

    Everything is kept in one folder: the record of every interval and decision
    (run.sqlite, readable while it runs) and the checkpoints that are needed. The
    first Ctrl-C lets what is in training end; a second one stops at once. Either
    way, and after a crash, `popbandits resume DIR` goes on.
    """
    parser.add_argument("experiment", metavar="FILE[:NAME]", help="such as train.py:experiment, or package.module:name")
    parser.add_argument("--dry-run", action="store_true", help="print what would run, and write nothing")
    options.add_options(parser, resumes=False)
    options.add_options(parser, resumes=True)

    def start(arguments: argparse.Namespace) -> int | None:
        from popbandits.run import Experiment
        from popbandits.run import run as run_it

        try:
            experiment = loaded(arguments.experiment)
            if not isinstance(experiment, Experiment):
                raise ArgumentError(f"{arguments.experiment}: an Experiment is run, got {experiment!r:.80}; name one")
            experiment = options.changed(experiment, arguments)
        except ArgumentError as error:
            parser.error(str(error))
        if arguments.dry_run:
            from popbandits.commands.plan import print_plan

            return print_plan(experiment)
        return summary(run_it(experiment).directory)

    return start


def summary(directory: Path) -> int | None:
    """Say what a run came to and where it is; the exit status."""
    from popbandits.reports.status import status
    from popbandits.storage.checkpoints import CHECKPOINTS, Checkpoints
    from popbandits.wording import number

    now = status(directory)
    if now.best is not None and now.mean is not None and now.best_key is not None:
        member, round_ = now.best_key
        print(f"Best score {number(now.best)} (member {member}, round {round_}), mean {number(now.mean)}.")
        print(f"Its checkpoint: {Checkpoints(directory / CHECKPOINTS).path(now.best_key)}")
    print(f"The run is kept in {directory}")
    over = now.rounds is not None and now.round >= now.rounds
    return None if over else STOPPED
