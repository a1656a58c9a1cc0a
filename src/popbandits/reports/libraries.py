"""Vega, Vega-Lite and Vega-Embed as one script, for a page that needs no network."""

import os
import subprocess
import sys
import threading
from functools import cached_property

PROGRAM = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"


class Libraries:
    """The script, bundled in the background. Thread-safe.

    vl-convert takes two or three seconds and blocks Python meanwhile, so it runs in its own process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # -P: import nothing from the working folder, which may hold a stranger's files.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen([sys.executable, "-P", "-c", PROGRAM], stdout=subprocess.PIPE, env=environment)

    def text(self) -> str:
        """Wait for the script, and return it."""
        with self._lock:
            return self._script

    @cached_property
    def _script(self) -> str:
        script, _ = self._process.communicate()
        if self._process.returncode:
            raise RuntimeError(f"vl-convert could not bundle Vega: exit status {self._process.returncode}")
        return script.decode()

    def close(self) -> None:
        """Stop bundling."""
        with self._lock, self._process:
            self._process.kill()
