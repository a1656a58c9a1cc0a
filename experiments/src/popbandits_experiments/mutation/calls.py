"""Record which functions of a checkout a test calls, including in processes that it starts.

This file imports nothing of ours: Python imports a copy of it, named `sitecustomize`, first in those processes.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

CALLED = "POPBANDITS_CALLED"
"""Variable with the path, in the root of the checkout, to which processes append `file:line` of functions."""


def watch() -> Callable[[], None]:
    """Start recording calls if the variable is set; return a function that stops it."""
    path = os.environ.get(CALLED)
    if path is None:
        return lambda: None
    root = os.path.dirname(path) + os.sep
    source = os.path.join(root, "src", "")
    seen: dict[int, Any] = {}  # keeps the code objects, so that their ids are not reused

    def called(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or id(code) in seen:
            return
        seen[id(code)] = code
        if code.co_filename.startswith(source):
            # Written at once: a process may be killed. If it fails, the test is only not chosen for this call.
            with suppress(OSError), open(path, "a") as file:
                file.write(f"{code.co_filename[len(root) :]}:{code.co_firstlineno}\n")

    threading.setprofile(called)
    sys.setprofile(called)

    def stop() -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    return stop


watch()
