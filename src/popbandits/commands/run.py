"""`popbandits run`."""

import argparse
from typing import TYPE_CHECKING

from popbandits.commands import options
from popbandits.commands.registry import STOPPED, Command, load_named
from popbandits.errors import ArgumentError

if TYPE_CHECKING:
    from popbandits.run import Result


def run(parser: argparse.ArgumentParser) -> Command:
    """Run an experiment: tune an agent, from the start.

    An experiment is an object in your file or module:

      from popbandits import Experiment
      experiment = Experiment(make_agent, space, population=4, rounds=50)

    Give the file, and the object's name unless it is `experiment`. The options
    below override the object's settings.

    Everything is in one folder: the record of every interval and decision
    (run.sqlite, readable during the run) and the checkpoints that are needed. The
    first Ctrl-C waits for intervals in training; a second one stops at once. In
    both cases, and after a crash, `popbandits resume DIR` continues the run.
    """
    parser.add_argument("experiment", metavar="FILE[:NAME]", help="such as train.py:experiment, or package.module:name")
    parser.add_argument("--dry-run", action="store_true", help="print what would run, and write nothing")
    options.add_options(parser, resumes=False)
    options.add_options(parser, resumes=True)

    def start(arguments: argparse.Namespace) -> int | None:
        from popbandits.run import Experiment
        from popbandits.run import run as run_experiment

        experiment = load_named(arguments.experiment)
        if not isinstance(experiment, Experiment):
            raise ArgumentError(f"{arguments.experiment} must be an Experiment, got {experiment!r:.80}; name one")
        experiment = options.apply_options(experiment, arguments)
        if arguments.dry_run:
            from popbandits.commands.plan import print_plan

            return print_plan(experiment)
        return print_summary(run_experiment(experiment))

    return start


def print_summary(result: "Result") -> int | None:
    """Print the best score of a run, what it hands over and its folder; return the exit status."""
    from popbandits.basics.arithmetic import mean
    from popbandits.basics.wording import number
    from popbandits.storage.queries import counts, last_scores
    from popbandits.storage.store import reading

    with reading(result.directory) as store:  # Not `status`: it builds the space once more.
        best, last, (intervals, *_), about = store.best(), last_scores(store), counts(store), store.about
    if best is not None:
        print(f"Best score {number(best.score)} (member {best.member}, round {best.round}), mean {number(mean(last))}.")
        print(f"Handed over: {result.choice}.")
        print(f"Its checkpoint: {result.checkpoint}")
    print(f"The run is in {result.directory}")
    over = about["rounds"] is not None and intervals >= about["size"] * about["rounds"]
    return None if over else STOPPED
