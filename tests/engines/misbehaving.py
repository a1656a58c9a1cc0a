"""Agents that raise or fork. They are apart from their tests, so that worker processes import little."""

import asyncio
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.engines.agents import Once, Walker


class Speechless(Exception):
    """Cannot be printed."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class Unpicklable(Exception):
    """Cannot be sent to another process."""

    def __init__(self, first: int, second: int):
        super().__init__("two arguments are needed")
        self.lock = threading.Lock()


class Fundamental(BaseException):
    """Not even an Exception."""


class Endless(Exception):
    """Its cause is itself."""

    def __init__(self) -> None:
        super().__init__("round and round")
        self.__cause__ = self


def surrogates() -> Exception:
    return OSError("cannot read \ud800caf\udce9")


RAISED: dict[str, tuple[Callable[[], BaseException], str]] = {
    "surrogates": (surrogates, r"OSError: cannot read \ud800caf\udce9"),
    "speechless": (Speechless, "Speechless"),
    "unpicklable": (partial(Unpicklable, 1, 2), "Unpicklable: two arguments are needed"),
    "cancelled": (asyncio.CancelledError, "CancelledError"),
    "interrupt": (KeyboardInterrupt, "KeyboardInterrupt"),
    "exit": (partial(SystemExit, "the end"), "SystemExit: the end"),
    "generator": (GeneratorExit, "GeneratorExit"),
    "fundamental": (partial(Fundamental, "x" * 15_000), "Fundamental: xxx"),
    "group": (partial(BaseExceptionGroup, "all", [KeyboardInterrupt()]), "BaseExceptionGroup: all (1 sub-exception)"),
    "endless": (Endless, "Endless: round and round"),
}


class FailsIn(Walker):
    """Raises in one of its methods, each time that it is called."""

    def __init__(self, seed: int, method: str):
        self.method = method
        self.fail("__init__")
        super().__init__(seed)

    def fail(self, method: str) -> None:
        if method == self.method:
            raise ValueError("the loss exploded")

    def train(self, config: dict[str, Any]) -> Any:
        self.fail("train")
        return super().train(config)

    def save(self, directory: Path) -> None:
        self.fail("save")
        super().save(directory)

    def load(self, directory: Path) -> None:
        self.fail("load")
        super().load(directory)


class Raising(Once):
    """Raises what its name says in one interval."""

    def misbehave(self) -> None:
        raise RAISED[self.way][0]()


class Forking(Walker):
    """Forks wherever it can; the forked process returns or raises into whoever called the agent."""

    def __init__(self, seed: int, pids: Path):
        super().__init__(seed)
        self.pids = pids
        self.fork()

    def fork(self, *, raises: bool = False) -> None:
        if pid := os.fork():
            (self.pids / str(pid)).touch()
        elif raises:
            raise RuntimeError("in the forked process")

    def train(self, config: dict[str, Any]) -> Any:
        outcome = super().train(config)
        self.fork(raises=config["epochs"] % 2 == 0)
        return outcome

    def save(self, directory: Path) -> None:
        super().save(directory)
        self.fork()  # Not before: both would write.

    def load(self, directory: Path) -> None:
        super().load(directory)
        self.fork(raises=True)
