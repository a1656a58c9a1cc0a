"""The README from top to bottom: every snippet of Python runs as written, and so does every command on it."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import popbandits
from popbandits.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^popbandits (.*?)(?:\s+#.*)?$", README, re.MULTILINE)
SERVES = "watch"
"""The command that runs until it is stopped; it has tests of its own."""


def test_every_snippet_and_command_runs_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    env = os.environ | {"PYTHONPATH": str(Path(popbandits.__file__).parents[1])}  # This checkout, installed or not.
    for number, snippet in enumerate(SNIPPETS):
        file = Path("agent.py" if number == 0 else f"snippet_{number}.py")
        file.write_text(snippet)
        subprocess.run([sys.executable, file], check=True, env=env)
    commands = [command for command in COMMANDS if not command.startswith(SERVES)]
    assert len(commands) >= 7
    for command in commands:
        assert main(shlex.split(command)) == 0, (command, capfd.readouterr().err)
    assert "problem" not in capfd.readouterr().out
    assert {"report.html", "runs", "agent.py"} <= {path.name for path in tmp_path.iterdir()}
