"""A process that reports the end of another one that has no time to do so itself."""

import subprocess
import sys
from contextlib import suppress

PROGRAM = "import sys\nif not sys.stdin.buffer.read(1):\n    print(sys.argv[1], file=sys.stderr)"
"""Wait for a byte; print the text if there is none, because the process that would send it has ended."""


class Watchdog:
    """A process that prints a text if this process ends before `dismiss` is called, even if it is killed.

    Args:
        text: What to print to the standard error.
    """

    def __init__(self, text: str):
        command = [sys.executable, "-I", "-S", "-c", PROGRAM, text]
        # In a session of its own: Ctrl-C is for the process that it watches.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def dismiss(self) -> None:
        """End it without a word."""
        with suppress(OSError, ValueError):  # It was dismissed before, or killed.
            self._process.communicate(b"!")
