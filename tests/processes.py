"""Processes that tests start and wait for, and what a run leaves on the disk."""

import os
import runpy
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from popbandits.errors import HistoryError


def in_a_child(work: Callable[[], Any]) -> int:
    """Start work in a forked process, with everything imported, and return its id.

    It ends with status 0, or 1 after an exception, which is printed.
    """
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking with threads: the child uses none of them
        pid = os.fork()
    if pid:
        return pid
    status = 1
    try:  # The child never returns to its caller.
        work()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def until(condition: Callable[[], Any], seconds: float = 300) -> None:
    """Wait until something is so; fail if it never is."""
    end = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except HistoryError:  # There is no run yet.
            pass
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.01)


def contents(directory: Path) -> dict[str, bytes]:
    """Return the checkpoints of a run, file by file."""
    folder = directory / "checkpoints"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run_script(script: Path, folder: Path, *arguments: str) -> None:
    """Run a script in a folder, which is its home too, but in this process: importing the libraries takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.chdir(folder)
        patch.setattr(sys, "argv", [str(script), *arguments])
        runpy.run_path(str(script), run_name="__main__")
