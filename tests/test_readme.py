"""The README from top to bottom: every snippet of Python runs as written, and so does every command on it."""

import re
import shlex
from pathlib import Path

import pytest

from popbandits.cli import main
from tests.processes import run_script

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^popbandits (.*?)(?:\s+#.*)?$", README, re.MULTILINE)
SERVES = "watch"
"""The command that runs until it is stopped; it has tests of its own."""


def test_every_snippet_and_command_runs_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, snippet in enumerate(SNIPPETS):
        file = Path("agent.py" if number == 0 else f"snippet_{number}.py")
        file.write_text(snippet)
        run_script(tmp_path / file, tmp_path)
    commands = [command for command in COMMANDS if not command.startswith(SERVES)]
    assert len(commands) >= 7
    for command in commands:
        assert main(shlex.split(command)) == 0, (command, capfd.readouterr().err)
    assert "problem" not in capfd.readouterr().out
    assert {"report.html", "runs", "agent.py"} <= {path.name for path in tmp_path.iterdir()}
