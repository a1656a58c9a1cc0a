"""`popbandits report`."""

import argparse
from pathlib import Path

from popbandits.commands.registry import Command, command, say_where
from popbandits.errors import ArgumentError


@command
def report(parser: argparse.ArgumentParser) -> Command:
    """Write what happened in a run, or in several, as one page.

    The page opens in any browser, without a network: a summary in words, learning
    curves, the learned schedules, who descended from whom, which labels were chosen
    and what they gained, what mattered, what the model believes, and every interval.
    Several runs are compared by method, with the paper's tables. It works for runs
    that are still going on.

    It needs: pip install 'popbandits[report]'
    """
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="their folders, or folders of runs")
    parser.add_argument("-o", "--output", type=Path, default=Path("report.html"), metavar="FILE", help="(report.html)")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="also write every figure for print: PNG, SVG, PDF")

    def write(arguments: argparse.Namespace) -> None:
        from popbandits.reports.report import write_report

        try:
            say_where(write_report(arguments.runs, arguments.output, arguments.figures))
        except ArgumentError as error:
            parser.error(str(error))

    return write
