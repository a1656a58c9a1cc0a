"""`popbandits report`."""

import argparse
from pathlib import Path

from popbandits.commands.registry import Command, print_written
from popbandits.errors import ArgumentError


def report(parser: argparse.ArgumentParser) -> Command:
    """Write a report on one or more runs, as one HTML page.

    The page opens in any browser, offline. It has a summary in words, learning
    curves, the learned schedules, the lineages, the labels chosen and what they
    gained, the hyperparameters that mattered, the model's predictions, and every
    interval. Several runs are compared by method, with the paper's tables. Runs
    that are still training can be reported too.

    It needs: pip install 'popbandits[report]'
    """
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders, or their parent folders")
    page = Path("report.html")
    parser.add_argument("-o", "--output", type=Path, default=page, metavar="FILE", help=f"page to write ({page})")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="also write every figure for print: PNG, SVG, PDF")

    def write(arguments: argparse.Namespace) -> None:
        from popbandits.reports.report import write_report

        try:
            print_written(write_report(arguments.runs, arguments.output, arguments.figures))
        except ArgumentError as error:
            parser.error(str(error))

    return write
