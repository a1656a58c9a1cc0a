"""Agents that leave the numbers of their processes where a test finds them; apart from it, to be imported quickly."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.engines.agents import Walker


class Watched(Walker):
    """Leaves the number of its process where a test finds it, and takes its time."""

    def __init__(self, seed: int, pids: Path):
        super().__init__(seed)
        self.pids = pids
        (pids / str(os.getpid())).touch()

    def train(self, config: dict[str, Any]) -> Any:
        time.sleep(0.05)
        return super().train(config)


class Parent(Watched):
    """Starts a process of its own, and dies or holds the interpreter's lock in its second interval."""

    def __init__(self, seed: int, pids: Path, way: str):
        super().__init__(seed, pids)
        self.way = way

    def assigned(self, member: int, round_: int) -> None:
        if round_ == 1:
            (self.pids / str(subprocess.Popen(["sleep", "1000"]).pid)).touch()
            if self.way == "hold":
                (self.pids / "holding").touch()
                re.match(r"(a+)+$", "a" * 64 + "b")  # Would take centuries, and lets no other thread run.
            os.kill(os.getpid(), signal.SIGKILL)


class Heir(Watched):
    """Dies in its second interval, and leaves a forked process that has all of its files open."""

    def assigned(self, member: int, round_: int) -> None:
        if round_ == 1:
            if pid := os.fork():
                (self.pids / str(pid)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(1000)
