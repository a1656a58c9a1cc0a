"""`write_report`: the report of one run, or a comparison of several."""

from collections.abc import Sequence
from pathlib import Path

from popbandits.errors import ArgumentError
from popbandits.reports.figures.figure import require_extra
from popbandits.reports.libraries import Libraries
from popbandits.reports.run import Run
from popbandits.reports.several import several
from popbandits.reports.single import single
from popbandits.storage.folders import run_folders


def write_report(runs: Sequence[str | Path], output: str | Path, figures: str | Path | None = None) -> list[Path]:
    """Write the report of a run, or a comparison of several, as one page; return the paths written.

    Args:
        runs: Run folders, or their parent folders.
        output: Path of the page.
        figures: Folder for the figures as PNG, SVG, PDF and Vega-Lite. None (default) for none.
    """
    require_extra()
    if not runs:
        raise ArgumentError("a report needs a run, got none; give the folder of one")
    with Libraries() as libraries:
        found = [Run.read(directory) for directory in run_folders(runs)]
        content, drawn = single(found[0], libraries.text) if len(found) == 1 else several(found, libraries.text)
    output = Path(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(content, "utf-8")
    written = [output]
    if figures is not None:
        folder = Path(figures)
        folder.mkdir(parents=True, exist_ok=True)
        for one in drawn:
            written += one.write(folder)
    return written
