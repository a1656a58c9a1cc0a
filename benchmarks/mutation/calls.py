"""Notes which functions of a checkout a test calls, also in processes that it starts.

It stands by itself: a copy of this file, named `sitecustomize`, is what Python imports first in those processes.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

CALLED = "POPBANDITS_CALLED"
"""A variable that names the file, in the root of the checkout, to which processes add `file:line` of each function."""


def watch() -> Callable[[], None]:
    """Begin to note calls if the variable is set; returns how to stop."""
    path = os.environ.get(CALLED)
    if path is None:
        return lambda: None
    root = os.path.dirname(path) + os.sep
    source = os.path.join(root, "src", "")
    seen: dict[int, Any] = {}  # the code objects are kept, so that their ids stay theirs

    def called(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or id(code) in seen:
            return
        seen[id(code)] = code
        if code.co_filename.startswith(source):
            # At once: a process may be killed. Without it the test is not chosen by this call, and that is all.
            with suppress(OSError), open(path, "a") as file:
                file.write(f"{code.co_filename[len(root) :]}:{code.co_firstlineno}\n")

    threading.setprofile(called)
    sys.setprofile(called)

    def stop() -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    return stop


watch()
