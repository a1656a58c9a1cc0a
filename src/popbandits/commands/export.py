"""`popbandits export`."""

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path

from popbandits.commands.registry import Command
from popbandits.errors import PopbanditsError


def export(parser: argparse.ArgumentParser) -> Command:
    """Write every observation of a run as CSV, JSON or Parquet.

    There is a row for each interval of training. Its columns: member and round;
    parent_member and parent_round, the interval whose checkpoint it loaded; stage,
    how long its weights were trained before; winning, whether what the run hands
    over descends from it; status, score_before, score, change, steps, seconds;
    decision_seconds, the time that exploring took; fallback, why it used no model,
    if it used none; one for each hyperparameter (config.NAME, empty where it is
    inactive) and for each other metric of the agent (metrics.NAME). In CSV, an
    apostrophe precedes text that a spreadsheet would compute (it begins with =, +,
    - or @), and control characters are escaped.
    """
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run")
    kind = parser.add_mutually_exclusive_group(required=True)
    kinds = {"csv": "one line for each row", "json": "a list of objects"}
    kinds["parquet"] = "typed columns (needs: pip install 'popbandits[report]')"
    for name, text in kinds.items():
        kind.add_argument(f"--{name}", dest="kind", action="store_const", const=name, help=text)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="file to write; - for standard output (-; at a terminal, export.csv or the like in the run's folder)",
    )

    def write(arguments: argparse.Namespace) -> None:
        from popbandits.reports.export import export as export_run

        output = arguments.output
        if output is None:
            file_instead = sys.stdout.isatty() and arguments.run.is_dir()  # Thousands of rows are nothing to read.
            output = str(arguments.run / f"export.{arguments.kind}") if file_instead else "-"
        if output == "-":
            if arguments.kind == "parquet" and sys.stdout.isatty():
                parser.error("--parquet is binary and cannot be printed on a terminal; give a file with -o")
            export_run(arguments.run, arguments.kind, sys.stdout.buffer)
            sys.stdout.flush()
            return
        path = Path(output)
        partial = path.with_name(f"{path.name}.part")
        try:
            partial.unlink(missing_ok=True)  # It may be a link, in a folder that was received.
            with partial.open("xb") as file:
                rows = export_run(arguments.run, arguments.kind, file)
            os.replace(partial, path)
        except OSError as error:
            raise PopbanditsError(f"cannot write to {path}: {error.strerror}; give another file with -o") from error
        finally:
            with suppress(OSError):  # The disk may refuse this too.
                partial.unlink(missing_ok=True)
        print(f"Written: {path} ({rows} rows)")

    return write
