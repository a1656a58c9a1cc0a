"""Agents that do to `popbandits check` whatever a program can do, one way each."""

import asyncio
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from popbandits import Outcome

SPACE = {"lr": (0.0, 1.0), "way": ["a", "b"]}
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


class Number(float):
    def __repr__(self) -> str:
        raise RuntimeError("no text")


def throw(error: BaseException) -> Callable[[Path | None], NoReturn]:
    def act(folder: Path | None) -> NoReturn:
        raise error

    return act


def recurse(folder: Path | None) -> None:
    recurse(folder)


def fork(folder: Path | None) -> None:
    os.fork()


def fork_and_raise(folder: Path | None) -> None:
    if not os.fork():
        raise ValueError("in the child")


def shout(folder: Path | None) -> None:
    for _ in range(50):
        print(100_000 * "x")


def ignore_signals(folder: Path | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def leave_a_thread(folder: Path | None) -> None:
    threading.Thread(target=threading.Event().wait, args=(600,), daemon=True).start()


def in_folder(act: Callable[[Path], Any]) -> Callable[[Path | None], None]:
    """Act on the folder of a checkpoint, in save and load."""

    def maybe(folder: Path | None) -> None:
        if folder is not None:
            act(folder)

    return maybe


def circle() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["itself"] = made
    return made


ACTS: dict[str, Callable[[Path | None], Any]] = {
    "raise": throw(ValueError("the loss exploded")),
    "exit": throw(SystemExit(0)),
    "base exception": throw(BaseException("not even an Exception")),
    "interrupt": throw(KeyboardInterrupt()),
    "cancelled": throw(asyncio.CancelledError()),
    "generator exit": throw(GeneratorExit()),
    "stop iteration": throw(StopIteration()),
    "memory": throw(MemoryError()),
    "unprintable": throw(Unprintable()),
    "surrogates": throw(OSError("cannot read \ud800caf\udce9")),
    "escape codes": throw(ValueError("\x1b[2J\x07")),
    "group": throw(ExceptionGroup("two", [ValueError("1"), OSError("2")])),
    "group of interrupts": throw(BaseExceptionGroup("two", [KeyboardInterrupt(), OSError("2")])),
    "recursion": recurse,
    "fork": fork,
    "fork and raise": fork_and_raise,
    "megabytes": shout,
    "wander": lambda folder: os.chdir("/"),
    "signals": ignore_signals,
    "thread": leave_a_thread,
    "no output": lambda folder: setattr(sys, "stderr", None),
    "recursion limit": lambda folder: sys.setrecursionlimit(200),
    "delete": in_folder(shutil.rmtree),
    "delete all": in_folder(lambda folder: shutil.rmtree(folder.parent)),
    "write beside": in_folder(lambda folder: (folder.parent / "mine").write_text("x")),
    "link": in_folder(lambda folder: (folder / "link").symlink_to("/etc")),
    "loop": in_folder(lambda folder: (folder / "link").symlink_to(folder)),
    "dangling link": in_folder(lambda folder: (folder / "link").symlink_to("/nowhere")),
    "pipe": in_folder(lambda folder: os.mkfifo(folder / "pipe")),
    "odd name": in_folder(lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/\xff\n")).write_text("x")),
    "manifest": in_folder(lambda folder: (folder / "popbandits.manifest.json").write_text("mine")),
}
"""What an agent does in one of its methods."""

RESULTS: dict[str, Callable[[float], Any]] = {
    "array": np.array,
    "array of two": lambda x: np.array([x, x]),
    "complex": lambda x: complex(x, 1),
    "text": str,
    "nothing": lambda x: None,
    "true": lambda x: True,
    "huge integer": lambda x: 10**400,
    "infinity": lambda x: float("inf"),
    "number without text": Number,
    "tuple": lambda x: (x, {}),
    "dict": lambda x: {"score": x},
    "long text": lambda x: Long(),
    "unreadable": lambda x: Unreadable(),
    "huge metrics": lambda x: Outcome(x, metrics={"text": 5_000_000 * "x"}),
    "odd metrics": lambda x: Outcome(x, metrics={1: object()}),  # type: ignore[dict-item]
    "circular metrics": lambda x: Outcome(x, metrics=circle()),
    "negative steps": lambda x: Outcome(x, steps=-1),
}
"""What `train` returns instead of a score."""


class Agent:
    """An honest agent but for one act in one method, or for one kind of result."""

    def __init__(self, seed: int, act: str = "", method: str = "", result: str = ""):
        self.x, self._act, self._method, self._result = 0.0, act, method, result
        self._misbehave("init")

    def _misbehave(self, method: str, folder: Path | None = None) -> None:
        if method == self._method:
            ACTS[self._act](folder)

    def train(self, config: dict[str, Any]) -> Any:
        self.x += config["lr"] * (1 - self.x) + (config["way"] == "a")
        self._misbehave("train")
        return RESULTS[self._result](self.x) if self._result else self.x

    def save(self, directory: Path) -> None:
        (directory / "x.json").write_text(json.dumps(self.x))
        self._misbehave("save", directory)

    def load(self, directory: Path) -> None:
        self.x = json.loads((directory / "x.json").read_text())
        self._misbehave("load", directory)

    def close(self) -> None:
        self._misbehave("close")
