"""The report of one run, or a comparison of several: as a page, and as figures for a notebook."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from popbandits.errors import ArgumentError
from popbandits.reports.figures.figure import Figure, require_extra
from popbandits.reports.libraries import Libraries
from popbandits.reports.run import Run
from popbandits.storage.disk import write_whole
from popbandits.storage.folders import run_folders


def write_report(
    runs: Sequence[str | Path], output: str | Path, figures: str | Path | None = None, by: str = "method"
) -> list[Path]:
    """Write the report of a run, or a comparison of several, as one page; return the paths written.

    Args:
        runs: Run folders, or their parent folders.
        output: Path of the page.
        figures: Folder for the figures as PNG, SVG, PDF and Vega-Lite. None (default) for none.
        by: What several runs are grouped by: "method" (default), "run" (one by one), "size", "space" or "start".
    """
    require_extra()
    with closing(Libraries()) as libraries:
        content, drawn = _read(runs, libraries.text, by)
    write_whole(Path(output), content.encode())
    printed = [] if figures is None else [path for one in drawn for path in one.write(Path(figures))]
    return [Path(output), *printed]


def draw(*runs: str | Path) -> dict[str, Figure]:
    """Draw the figures of the report of a run, or of a comparison of several, by name; a notebook shows each.

    Args:
        runs: Run folders, or their parent folders.
    """
    require_extra()
    return {one.name: one for one in _read(runs, lambda: "")[1]}


def _read(runs: Sequence[str | Path], libraries: Callable[[], str], by: str = "method") -> tuple[str, list[Figure]]:
    """Return the page of runs, and its figures."""
    from popbandits.reports.several import comparison_page  # Here, as they import Altair.
    from popbandits.reports.single import report_page
    from popbandits.reports.tables import GROUPINGS

    if by not in GROUPINGS:
        raise ArgumentError(f"by must be one of {', '.join(GROUPINGS)}, got {by!r}")
    if not runs:
        raise ArgumentError("a report needs a run, got none; give the folder of one")
    found = [Run.read(directory) for directory in run_folders(runs)]
    return report_page(found[0], libraries) if len(found) == 1 else comparison_page(found, libraries, by)
