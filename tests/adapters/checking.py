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


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"open({str(self.marker)!r}, 'w').close()",)
