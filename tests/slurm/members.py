"""Agents of runs on SLURM, apart from the tests: every job imports the module of its agent."""

import os
import time
from pathlib import Path
from typing import Any

from tests.engines.agents import Walker, misbehave

WAYS = {(0, 1): "raise", (1, 1): "nan", (2, 1): "hang", (3, 1): "die", (4, 1): "interrupt"}


class Troubled(Walker):
    """Fails in its second interval, in a way of each member's own."""

    way = ""

    def assigned(self, member: int, round_: int) -> None:
        self.way = WAYS.get((member, round_), "")

    def train(self, config: dict[str, Any]) -> Any:
        if self.way == "interrupt":
            raise KeyboardInterrupt
        misbehave(self.way)
        return float("nan") if self.way == "nan" else super().train(config)


class Held(Walker):
    """Waits in its second interval until there is a file `go`, and leaves the number of its process meanwhile."""

    held = False

    def __init__(self, seed: int, folder: Path):
        super().__init__(seed)
        self.folder = Path(folder)

    def assigned(self, member: int, round_: int) -> None:
        self.held = round_ == 1

    def train(self, config: dict[str, Any]) -> Any:
        if self.held:
            (self.folder / f"{os.getpid()}.pid").touch()
        while self.held and not (self.folder / "go").exists():
            time.sleep(0.05)
        return super().train(config)


def held_processes(folder: Path) -> list[int]:
    """The processes of held agents that are still there; those of other users too."""
    found = [int(path.stem) for path in folder.glob("*.pid")]
    return [pid for pid in found if Path(f"/proc/{pid}").exists()]
