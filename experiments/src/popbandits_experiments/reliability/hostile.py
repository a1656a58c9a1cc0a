"""Agents that do whatever a program can do, one act at a time, in a module that a worker imports quickly."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from popbandits.agent import Outcome
from popbandits_experiments.reliability.walker import Walker

METHODS = ("init", "train", "save", "load", "close")


class Unprintable(Exception):
    """Cannot be printed."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class Long:
    def __repr__(self) -> str:
        return 1_000_000 * "x"


class Unreadable:
    def __float__(self) -> float:
        raise KeyboardInterrupt


def throw(error: BaseException) -> NoReturn:
    raise error


def recurse() -> None:
    recurse()


def fork_and_raise() -> None:
    if not os.fork():
        raise ValueError("in the child")


def ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave_an_orphan() -> None:
    subprocess.Popen(["sleep", "1000"])
    die()


RAISED: dict[str, BaseException] = {
    "raise": ValueError("the loss exploded"),
    "exit": SystemExit("the end"),
    "base exception": BaseException("not even an Exception"),
    "interrupt": KeyboardInterrupt(),
    "cancelled": asyncio.CancelledError(),
    "generator exit": GeneratorExit(),
    "stop iteration": StopIteration(),
    "memory": MemoryError(),
    "unprintable": Unprintable(),
    "surrogates": OSError("cannot read \ud800caf\udce9"),
    "escape codes": ValueError("\x1b[2J\x07"),
    "group": BaseExceptionGroup("two", [KeyboardInterrupt(), OSError("2")]),
}
CHANGES: dict[str, Callable[[], Any]] = {
    "recursion": recurse,
    "fork": os.fork,
    "fork and raise": fork_and_raise,
    "megabytes": lambda: print(5_000_000 * "x"),
    "wander": lambda: os.chdir("/"),
    "signals": ignore_signals,
    "thread": lambda: threading.Thread(target=threading.Event().wait, args=(600,), daemon=True).start(),
    "no output": lambda: setattr(sys, "stderr", None),
    "recursion limit": lambda: sys.setrecursionlimit(200),
}
"""What an agent may do to its process."""
ENDS: dict[str, Callable[[], Any]] = {"hang": threading.Event().wait, "die": die, "orphan": leave_an_orphan}
"""Acts that end no interval of their own, or the process."""
FILES: dict[str, Callable[[Path], Any]] = {
    "delete": shutil.rmtree,
    "delete all": lambda folder: shutil.rmtree(folder.parent),
    "write beside": lambda folder: (folder.parent / "mine").write_text("x"),
    "link": lambda folder: (folder / "link").symlink_to("/etc"),
    "loop": lambda folder: (folder / "link").symlink_to(folder),
    "dangling link": lambda folder: (folder / "link").symlink_to("/nowhere"),
    "pipe": lambda folder: os.mkfifo(folder / "pipe"),
    "odd name": lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/\xff\n")).write_text("x"),
    "manifest": lambda folder: (folder / "popbandits.manifest.json").write_text("mine"),
}
"""What an agent may do to the folder of a checkpoint."""
RESULTS: dict[str, Callable[[float], Any]] = {
    "array of two": lambda x: np.array([x, x]),
    "complex": lambda x: complex(x, 1),
    "text": str,
    "nothing": lambda x: None,
    "true": lambda x: True,
    "huge integer": lambda x: 10**400,
    "infinity": lambda x: float("inf"),
    "tuple": lambda x: (x, {}),
    "long text": lambda x: Long(),
    "unreadable": lambda x: Unreadable(),
    "huge metrics": lambda x: Outcome(x, metrics={"text": 5_000_000 * "x"}),
    "odd metrics": lambda x: Outcome(x, metrics={1: object()}),  # type: ignore[dict-item]
    "negative steps": lambda x: Outcome(x, steps=-1),
}
"""What `train` may return instead of a score."""

Way = tuple[str, str]
"""A method and what it does; or "result" and what `train` returns."""
IN_CHECKS: list[Way] = [
    *product(METHODS, (*RAISED, *CHANGES)),
    *product(("save", "load"), FILES),
    *product(("result",), RESULTS),
]
IN_RUNS: dict[str, list[Way]] = {
    "in-process": [
        *product(("train", "save"), ("fork and raise", "wander", *RAISED)),
        ("save", "manifest"),
        *product(("result",), ("infinity", "text", "nothing")),
    ]
}
IN_RUNS["threads"] = [*IN_RUNS["in-process"], *5 * [("train", "hang")]]
IN_RUNS["processes"] = [*IN_RUNS["threads"], *product(("train", "save"), ENDS)]


class Hostile(Walker):
    """An honest agent but for one way; in a run, chance picks one in two intervals of five."""

    def __init__(self, seed: int, way: Way = ("", ""), engine: str = ""):
        self.way, self.engine = way, engine
        super().__init__(seed)
        self._misbehave("init")

    def assigned(self, member: int, round_: int) -> None:
        if self.engine:
            chance = random.Random(1000 * round_ + member)
            self.way = chance.choice(IN_RUNS[self.engine]) if chance.random() < 0.4 else ("", "")

    def _misbehave(self, method: str, folder: Path | None = None) -> None:
        act = self.way[1] if method == self.way[0] else ""
        if act in RAISED:
            throw(RAISED[act])
        elif act in FILES and folder is not None:
            FILES[act](folder)
        elif act:
            (CHANGES | ENDS)[act]()

    def train(self, config: dict[str, Any]) -> Any:
        outcome = super().train(config)
        self._misbehave("train")
        return RESULTS[self.way[1]](outcome.score) if self.way[0] == "result" else outcome

    def save(self, directory: Path) -> None:
        super().save(directory)
        self._misbehave("save", directory)

    def load(self, directory: Path) -> None:
        super().load(directory)
        self._misbehave("load", directory)

    def close(self) -> None:
        self._misbehave("close")
