"""`popbandits report`."""

import argparse
from pathlib import Path

from popbandits.commands.registry import Command, print_written


def report(parser: argparse.ArgumentParser) -> Command:
    """Write a report on one or more runs, as one HTML page.

    The page opens in any browser, offline. It begins with what tuning gained over
    the start, the winner's curve and what to do next. Learning curves, schedules,
    the hyperparameters that mattered, every copy and every interval follow.
    Several runs are compared by method, or as --by says. Runs that are still
    training can be reported too.

    It needs: pip install 'popbandits[report]'
    """
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders, or their parent folders")
    page = Path("report.html")
    parser.add_argument("-o", "--output", type=Path, default=page, metavar="FILE", help=f"page to write ({page})")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="also write every figure for print: PNG, SVG, PDF")
    grouping = "what several runs are grouped by: method (default), run, size, space or start"
    parser.add_argument("--by", default="method", metavar="WHAT", help=grouping)

    def write(arguments: argparse.Namespace) -> None:
        from popbandits.reports.report import write_report

        print_written(write_report(arguments.runs, arguments.output, arguments.figures, arguments.by))

    return write
