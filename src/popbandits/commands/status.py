"""`popbandits status`."""

import argparse
import sys
from pathlib import Path

from popbandits.commands.registry import Command
from popbandits.errors import HistoryError


def status(parser: argparse.ArgumentParser) -> Command:
    """Show the state of runs, also while they train.

    A run is running while a process holds its folder, finished when every member
    has trained its last round, and otherwise stopped or killed: `popbandits resume`
    continues those.
    """
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or their parent folders")
    parser.add_argument("--json", action="store_true", help="print a JSON list, with numbers in full precision")

    def show(arguments: argparse.Namespace) -> int:
        import json

        from popbandits.basics.wording import visible
        from popbandits.reports import status as report
        from popbandits.storage.folders import run_folders

        found, wrong = [], []
        for directory in run_folders(arguments.runs):
            try:
                found.append(report.status(directory))
            except (HistoryError, OSError) as error:
                wrong.append(visible(str(error)))
        if arguments.json:
            print(json.dumps([vars(one) for one in found], indent=1))
        elif found:
            report.print_table(found)
        for message in wrong:
            print(f"popbandits: {message}", file=sys.stderr)
        return int(bool(wrong))

    return show
