"""An agent that fails in every way, in a module that a worker imports quickly."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from popbandits_experiments.reliability.walker import Walker


class Speechless(Exception):
    """Cannot be printed."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Hostile(Walker):
    """Fails in two intervals of five, in a way that chance picks."""

    def __init__(self, seed: int, ways: tuple[str, ...]):
        super().__init__(seed)
        self.ways, self.way = ways, ""

    def assigned(self, member: int, round_: int) -> None:
        chance = random.Random(1000 * round_ + member)
        self.way = chance.choice(self.ways) if chance.random() < 0.4 else ""

    def train(self, config: dict[str, Any]) -> Any:
        outcome = super().train(config)
        match self.way:
            case "raise":
                raise ValueError("the loss exploded")
            case "surrogates":
                raise OSError("cannot read \ud800caf\udce9")
            case "speechless":
                raise Speechless
            case "cancelled":
                raise asyncio.CancelledError
            case "interrupt":
                raise KeyboardInterrupt
            case "exit":
                sys.exit("the end")
            case "fundamental":
                raise BaseException("not even an Exception")
            case "nan" | "infinity":
                return float(self.way)
            case "text":
                return "a good score"
            case "fork":
                if os.fork():
                    raise ValueError("after a fork")
            case "wander":
                os.chdir("/")
                raise ValueError("far away")
            case "hang":
                threading.Event().wait()
            case "orphan":
                subprocess.Popen(["sleep", "1000"])
                os.kill(os.getpid(), signal.SIGKILL)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    def save(self, directory: Path) -> None:
        super().save(directory)
        if self.way == "save":
            raise RuntimeError("unexpected pos")
        if self.way == "unsaved":
            (directory / "popbandits.manifest.json").write_text("mine")
