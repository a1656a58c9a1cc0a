"""Try an installed popbandits as its first user would: import, help, a short run, its status, resuming it.

It needs the core alone, and runs on every system: `python tools/smoke.py`, from any folder.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

AGENT = """
from popbandits import Experiment


class Climber:
    height = 0.0

    def train(self, config):
        self.height += config["step"] * (2 if config["way"] == "up" else -1)
        return self.height

    def save(self, directory):
        (directory / "height").write_text(str(self.height))

    def load(self, directory):
        self.height = float((directory / "height").read_text())


space = {"step": (0.0, 1.0), "way": ["up", "down"]}
experiment = Experiment(Climber, space, "pb2-mix", population=4, rounds=5)

if __name__ == "__main__":  # Worker processes import this file.
    from popbandits import tune

    for engine in ("in-process", "threads", "processes"):
        result = tune(Climber, space, "pb2-mix", rounds=3, engine=engine, directory=engine)
        assert result.done
        assert len(result.schedule) == 3
"""


def main() -> None:
    """Run every step in a temporary folder; the first that fails ends it with its output."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        (home / "first.py").write_text(AGENT, encoding="utf-8")
        command = str(Path(sysconfig.get_path("scripts")) / "popbandits")
        expect(home, f"popbandits {version('popbandits')}", command, "--version")
        expect(home, "usage: popbandits", command, "--help")
        expect(home, "", sys.executable, "first.py")
        expect(home, "", command, "run", "first.py:experiment", "--directory", "runs/first")
        expect(home, "finished", command, "status", "runs")
        expect(home, "", command, "resume", "runs/first", "--rounds", "7")
        expect(home, "member", command, "export", "--csv", "runs/first")
        where = expect(home, "", sys.executable, "-c", "import popbandits; print(popbandits.__file__)").strip()
    print(f"popbandits {version('popbandits')} works with Python {sys.version.split()[0]} on {sys.platform}: {where}")


def expect(folder: Path, text: str, *command: str) -> str:
    """Run a command in a folder, and return what it printed; exit unless it succeeds and prints `text`."""
    # A key and modules of this account's own would make the trial depend on them.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = clean | {"XDG_STATE_HOME": str(folder / "state"), "PYTHONUTF8": "1", "COLUMNS": "120"}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=300)
    if ran.returncode or text not in ran.stdout:
        sys.exit(f"{' '.join(command)}: status {ran.returncode}, expected {text!r}\n{ran.stdout}\n{ran.stderr}")
    return ran.stdout


if __name__ == "__main__":
    main()
