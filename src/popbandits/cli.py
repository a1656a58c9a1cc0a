"""The command line. A command is one function here: its docstring is its help, and it returns what to run.

Whatever is slow to import is imported when a command runs: `popbandits --help` answers at once.
"""

import argparse
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from popbandits.errors import ArgumentError, MissingExtraError, PopbanditsError
from popbandits.experiments.methods import METHODS

Command = Callable[[argparse.Namespace], None]
Definition = Callable[[argparse.ArgumentParser], Command]

COMMANDS: dict[str, Definition] = {}

ABOUT = """\
popbandits tunes the hyperparameters of training runs while they train. A small
population trains side by side; now and then the weak copy the strong, and a
bandit and a model of what was seen so far pick what to try next."""

MORE = """\
examples:
  popbandits synthetic                        the paper's synthetic experiment, in full
  popbandits synthetic --seeds 3 --sizes 4    a first look
  popbandits synthetic --help                 what can be changed

in Python:
  from popbandits import PB2Fuse, Population
  population = Population({"clip": (0.01, 0.5), "aug": ["crop", "flip"]}, PB2Fuse())
  while not population.done:
      for assignment in population.ask():
          population.tell(assignment, train(assignment))

exit status:
  0 done, 1 it failed for the reason it printed, 2 the arguments are wrong, 130 stopped by Ctrl-C"""


def command(define: Definition) -> Definition:
    """Make a function a command of its name: it adds its arguments to a parser and returns what to run."""
    COMMANDS[define.__name__] = define
    return define


@command
def synthetic(parser: argparse.ArgumentParser) -> Command:
    """Run the paper's synthetic experiment: a table, a figure and the numbers.

    The task: a label h in {sin, cos} and a number x in [0, pi/2]. A round gains
    h(x), its regret is 1 - h(x), and a member's score is the sum of its gains.
    Every method runs with every population size and seed, on all cores. The same
    arguments give the same numbers, whatever the number of workers.

    It prints the cumulative regret of the mean over members and of the best
    member, beside the floor: what a perfect explorer reaches that may change
    only the members which are replaced. It writes, to the output folder:

      results.json       every run, with versions, date and arguments
      curves.csv         cumulative regret, round by round
      regret.png, .svg   the figure (needs: pip install 'popbandits[report]')
      regret.vl.json     the figure for a Vega editor
    """
    parser.add_argument(
        "--methods",
        nargs="+",
        default=list(METHODS),
        metavar="NAME",
        help=f"which to compare, of: {', '.join(METHODS)} (all; /all means that every member explores)",
    )
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=[4, 8, 12], metavar="N", help="population sizes (4 8 12)"
    )
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="runs of each, seeds 0 to N - 1 (20)")
    parser.add_argument("--rounds", type=int, default=50, metavar="N", help="rounds of a run (50)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (one for each core)")
    output(parser, Path("runs/synthetic"))

    def run(arguments: argparse.Namespace) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        from popbandits.experiments.parallel import worker_count
        from popbandits.experiments.synthetic import Synthetic
        from popbandits.reports import regret

        try:
            workers = worker_count(arguments.workers)
            experiment = Synthetic(tuple(arguments.methods), tuple(arguments.sizes), arguments.seeds, arguments.rounds)
        except ArgumentError as error:
            parser.error(str(error))
        folder = made(arguments.output)
        screen = Console(stderr=True)
        try:
            regret.require_extra()
        except MissingExtraError as error:  # Said now, not after minutes of waiting.
            screen.print(f"There will be no figure: {error}", highlight=False, markup=False, soft_wrap=True)
        runs = f"{len(experiment.methods) * len(experiment.sizes) * experiment.seeds} runs"
        columns = (
            TextColumn(f"{runs}, {workers} at a time" if workers > 1 else runs),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        with Progress(*columns, console=screen, speed_estimate_period=120) as progress:
            task = progress.add_task("", total=1.0)
            results = experiment.run(workers, lambda share: progress.advance(task, share))
            progress.update(task, completed=1.0)  # shares add up to one but for rounding
        paths = results.save(folder)
        regret.print_table(results)
        with suppress(MissingExtraError):
            paths += regret.write_figure(results, folder)
        say_where(paths)

    return run


# What several commands need


def output(parser: argparse.ArgumentParser, default: Path) -> None:
    """Add `-o`."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=default,
        metavar="DIR",
        help=f"where files are written ({default})",
    )


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


class Parser(argparse.ArgumentParser):
    """Errors that say what is wrong, and where to read on."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message}\nSee: {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    """Of the whole command line."""
    texts = {name: inspect.getdoc(define) or name for name, define in COMMANDS.items()}
    summaries = [f"  {name:<11} {text.partition(chr(10))[0]}" for name, text in texts.items()]
    top = Parser(
        prog="popbandits",
        usage="popbandits COMMAND [options]    (popbandits COMMAND --help explains a command)",
        description="\n".join([ABOUT, "", "commands:", *summaries]),
        epilog=MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    version = import_module("popbandits").__version__
    top.add_argument("--version", action="version", version=f"popbandits {version}", help="print it and exit")
    commands = top.add_subparsers(metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    for name, define in COMMANDS.items():
        one = commands.add_parser(
            name,
            prog=f"popbandits {name}",
            description=texts[name],
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        one.set_defaults(run=define(one))
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit status."""
    arguments = parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except PopbanditsError as error:
        print(f"popbandits: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("popbandits: stopped", file=sys.stderr)
        return 130
    return 0
