"""What every test, and every example in a docstring, runs with."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from popbandits.reports import libraries

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # As in jobs of a shell's background; children would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")  # Ray Tune leaves its handler behind, for the tests after it.

gc.disable()  # Until all tests are found: what is made meanwhile stays, and would be looked through again and again.


def pytest_collection_finish() -> None:
    """Leave the tests, and what they import, out of every search for garbage from here on."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in the source alone: every worker would read all files of tests twice, and find none."""
    found = yield
    return [each for each in found if type(each) is pytest.Module] if "tests" in file_path.parts else found


@pytest.fixture(scope="session", autouse=True)
def state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the key that signs records out of the home of whoever runs the tests."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    yield
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before


BUNDLED = """
import os, sys, vl_convert
if not os.path.exists({0!r}):
    part = {0!r} + str(os.getpid())
    with open(part, "wb") as file:
        file.write(vl_convert.javascript_bundle().encode())
    os.replace(part, {0!r})
with open({0!r}, "rb") as file:
    sys.stdout.buffer.write(file.read())
"""
"""Bundles Vega once for all reports and pages: three seconds of a processor, for the same script each time."""


@pytest.fixture(scope="session", autouse=True)
def bundled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the processes of the tests share the script that reports carry."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libraries, "PROGRAM", BUNDLED.format(str(shared / "vega.js")))
        yield
