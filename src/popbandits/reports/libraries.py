"""Vega, Vega-Lite and Vega-Embed as one script, for a page that needs no network."""

import os
import subprocess
import sys
from types import TracebackType

PROGRAM = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"


class Libraries:
    """The script, in the making while something else is done.

    vl-convert takes two seconds or three to bundle it and keeps Python waiting meanwhile, hence a process of its own.
    """

    def __init__(self) -> None:
        # -P: not from the working folder, which may hold what somebody sent.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen([sys.executable, "-P", "-c", PROGRAM], stdout=subprocess.PIPE, env=environment)

    def text(self) -> str:
        """The script, when it is there."""
        made, _ = self._process.communicate()
        if self._process.returncode:
            raise RuntimeError(f"vl-convert could not bundle Vega: exit status {self._process.returncode}")
        return made.decode()

    def stop(self) -> None:
        """Do without it, if it is not there yet."""
        with self._process:
            self._process.kill()

    def __enter__(self) -> "Libraries":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
