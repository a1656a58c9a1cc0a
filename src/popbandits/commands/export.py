"""`popbandits export`."""

import argparse
import os
import sys
from pathlib import Path

from popbandits.commands.registry import Command, command
from popbandits.errors import PopbanditsError


@command
def export(parser: argparse.ArgumentParser) -> Command:
    """Write every observation of a run as CSV, JSON or Parquet.

    A row for each interval of training: member and round; parent_member and
    parent_round, whose checkpoint it began with; stage, how long its weights had
    been trained before; winning, whether the best score descends from it; status,
    score_before, score, change, steps, seconds; decision_seconds and fallback,
    what exploring took and why it did without its model, if it did. Then a column
    for each hyperparameter (config.NAME, empty where it is not active) and for
    whatever else the agent reported (metrics.NAME). In CSV, text that a
    spreadsheet would compute (it begins with =, +, - or @) has an apostrophe
    before it, and control characters are written out.
    """
    parser.add_argument("run", type=Path, metavar="RUN", help="its folder")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--csv", dest="kind", action="store_const", const="csv", help="a line for each row")
    kind.add_argument("--json", dest="kind", action="store_const", const="json", help="a list of objects")
    kind.add_argument(
        "--parquet",
        dest="kind",
        action="store_const",
        const="parquet",
        help="typed columns (needs: pip install 'popbandits[report]')",
    )
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="where to; - for the standard output (-)")

    def write(arguments: argparse.Namespace) -> None:
        from popbandits.reports.export import export as export_run

        if arguments.output == "-":
            if arguments.kind == "parquet" and sys.stdout.isatty():
                parser.error("--parquet is nothing to read on a terminal; give a file with -o")
            export_run(arguments.run, arguments.kind, sys.stdout.buffer)
            sys.stdout.flush()
            return
        path = Path(arguments.output)
        beside = path.with_name(f"{path.name}.part")
        try:
            with beside.open("wb") as file:
                rows = export_run(arguments.run, arguments.kind, file)
            os.replace(beside, path)
        except OSError as error:
            raise PopbanditsError(f"cannot write to {path}: {error.strerror}; give another file with -o") from error
        finally:
            beside.unlink(missing_ok=True)
        print(f"Written: {path} ({rows} rows)")

    return write
