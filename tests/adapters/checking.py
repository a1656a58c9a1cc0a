"""What every adapter's tests ask."""

from pathlib import Path
from typing import Any

from popbandits.testing import Report


def flawless(report: Report) -> None:
    assert {finding.status for finding in report.findings} == {"ok"}, str(report)


def saved(agent: Any, directory: Path) -> Path:
    """Save an agent to a new folder."""
    directory.mkdir()
    agent.save(directory)
    return directory
