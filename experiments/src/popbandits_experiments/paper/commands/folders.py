"""The folder that a command writes to."""

import argparse
import os
from pathlib import Path

from popbandits.errors import PopbanditsError


def output(parser: argparse.ArgumentParser, default: Path) -> None:
    """Add `-o` for a folder."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=default,
        metavar="DIR",
        help=f"folder to write to ({default})",
    )


def make_folder(folder: Path) -> Path:
    """Make a folder unless it exists, and check before the work begins that it can be written to."""
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
