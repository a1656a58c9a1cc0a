"""`popbandits synthetic`."""

import argparse
from contextlib import suppress
from pathlib import Path

from popbandits.commands.registry import Command, print_written
from popbandits.errors import ArgumentError, MissingExtraError
from popbandits_experiments.methods import ALL_METHODS as METHODS
from popbandits_experiments.paper.commands.folders import make_folder, output
from popbandits_experiments.paper.compared import COMPARED


def synthetic(parser: argparse.ArgumentParser) -> Command:
    """Run the paper's synthetic experiment: a table, a figure and the numbers.

    The task: a label h in {sin, cos} and a number x in [0, pi/2]. A round gains
    h(x), its regret is 1 - h(x), and a member's score is the sum of its gains.
    Every method runs with every population size and seed, on all cores. The same
    arguments give the same numbers, whatever the number of workers.

    It prints the cumulative regret of the mean over members and of the best
    member, next to the floor: the regret of a perfect explorer that may change
    only the members that are replaced. It writes to the output folder:

      results.json              every run, with versions, date and arguments
      regret.png, .svg, .pdf    the figure (needs: pip install 'popbandits[report]')
      regret.vl.json            the figure for a Vega editor
    """
    parser.add_argument(
        "--methods",
        nargs="+",
        default=list(COMPARED),
        metavar="NAME",
        help=f"methods to compare, from {', '.join(METHODS)} (those before cocabo; /all: every member explores)",
    )
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=[4, 8, 12], metavar="N", help="population sizes (4 8 12)"
    )
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="runs of each, with seeds 0 to N - 1 (20)")
    parser.add_argument("--rounds", type=int, default=50, metavar="N", help="rounds of a run (50)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (one for each core)")
    output(parser, Path("runs/synthetic"))

    def run(arguments: argparse.Namespace) -> None:
        from rich.console import Console
        from rich.progress import Progress

        from popbandits.reports.figures.figure import require_extra
        from popbandits_experiments.paper import regret
        from popbandits_experiments.paper.parallel import worker_count
        from popbandits_experiments.paper.synthetic import Synthetic

        try:
            workers = worker_count(arguments.workers)
            experiment = Synthetic(tuple(arguments.methods), tuple(arguments.sizes), arguments.seeds, arguments.rounds)
        except ArgumentError as error:
            parser.error(str(error))
        folder = make_folder(arguments.output)
        screen = Console(stderr=True)
        try:
            require_extra()
        except MissingExtraError as error:  # Reported now, not after minutes of waiting.
            screen.print(f"There will be no figure: {error}", highlight=False, markup=False, soft_wrap=True)
        jobs = experiment.jobs()
        with Progress(console=screen, speed_estimate_period=120) as progress:
            task = progress.add_task(f"{len(jobs)} jobs, {workers} at a time", total=len(jobs))
            results = experiment.run(workers, lambda: progress.advance(task))
        paths = [results.save(folder)]
        regret.print_table(results)
        with suppress(MissingExtraError):
            paths += regret.figure(results).write(folder)
        print_written(paths)

    return run
