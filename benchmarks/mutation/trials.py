"""The trials: each mutant in a copy of the checkout, in a forked process that runs pytest and stops at a failure."""

import json
import os
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from benchmarks.mutation.mutants import ROOT, Mutant

TESTS = {
    "models": ["tests/models", "tests/explorers/test_arms.py", "tests/explorers/test_fits.py"],
    "explorers": ["tests/explorers", "tests/population"],
    "population": ["tests/population", "tests/explorers/test_methods.py"],
    "engines": ["tests/engines"],
    "history": ["tests/history"],
}
"""Which tests are to notice a change in which folder; the file's own doctests come on top."""

COPIED = ("src", "tests", "docs", "pyproject.toml")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "golden", "rl", "*.png")
SLACK = 60.0
"""Seconds that a trial may take beyond four times what its tests take without a change."""
PRELOADED = ("numpy", "scipy.optimize", "scipy.stats", "ConfigSpace", "threadpoolctl", "rich.console", "sqlite3")
"""Imported once, before processes are forked; nothing of ours is."""

Times = dict[str, float]
"""Seconds of each test that passes without a change."""


class Order:
    """A pytest plugin: the tests that are known to pass, the fastest first; it notes how long each took."""

    def __init__(self, known: Times | None, slowest: float):
        self.known, self.slowest = known, slowest
        self.times: Times = {}
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        import popbandits

        assert Path.cwd() in Path(popbandits.__file__).parents, "another copy is tested than that which is changed"
        if self.known is not None:
            known = {name: seconds for name, seconds in self.known.items() if seconds <= self.slowest}
            items[:] = sorted((i for i in items if i.nodeid in known), key=lambda item: known[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.times[report.nodeid] = self.times.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)


@dataclass
class Trial:
    """A process at work."""

    pid: int
    began: float
    limit: float
    done: Callable[[int | None, dict[str, Any]], None]
    """Takes the exit status, None if it took too long, and what it wrote."""
    copy: Path


def tests_of(file: str) -> list[str]:
    """The tests that are to notice a change in a file, and its own doctests."""
    return [file, *TESTS[Path(file).parts[2]]]


def measure(files: set[str], copies: list[Path]) -> Times:
    """Run the tests of these files once without a change; those that fail on this machine are left out of the trials."""
    times: Times = {}

    def done(status: int | None, wrote: dict[str, Any]) -> None:
        times.update({name: s for name, s in wrote["times"].items() if name not in wrote["failed"]})
        for name in wrote["failed"]:
            print(f"fails without a change, and is left out: {name}", flush=True)

    wanted = {test for file in files for test in tests_of(file)}
    parts = [
        [test] for test in sorted(wanted) if not test.startswith("src") and Path(test).parent.as_posix() not in wanted
    ]
    parts.append(sorted(test for test in wanted if test.startswith("src")))  # doctests
    _all_of([(lambda copy, part=part: _start(copy, part, None, 0.0, 3600.0, done)) for part in parts], copies)
    return times


def run(mutants: list[Mutant], times: Times, copies: list[Path], slowest: float, results: Path, until: float) -> None:
    """Try mutants until the time is over, each on a copy; a line of `results` for each."""

    def trial(mutant: Mutant, copy: Path) -> Trial:
        path = copy / mutant.file
        original, kept = path.read_text("utf-8"), path.stat()
        path.write_text(mutant.applied(original), "utf-8")
        # Python takes compiled code for current by the second: every mutant has another one.
        os.utime(path, (1e9 + mutant.id, 1e9 + mutant.id))
        tests = tests_of(mutant.file)
        usual = sum(s for name, s in times.items() if s <= slowest and name.startswith(tuple(tests)))

        def done(status: int | None, wrote: dict[str, Any]) -> None:
            path.write_text(original, "utf-8")
            os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
            outcome = {None: "timeout", 0: "survived", 1: "killed", 2: "killed"}.get(status, f"error {status}")
            line = {
                "id": mutant.id,
                "outcome": outcome,
                "seconds": round(time.monotonic() - began, 1),
                "by": (wrote.get("failed") or [None])[0],
            }
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{outcome:<9}{line['seconds']:>7.1f} s  {mutant.file}:{mutant.line} {mutant.kind}", flush=True)

        began = time.monotonic()
        return _start(copy, tests, times, slowest, 4.0 * usual + SLACK, done)

    _all_of([(lambda copy, mutant=mutant: trial(mutant, copy)) for mutant in mutants], copies, until)


@contextmanager
def make_copies(count: int) -> Iterator[list[Path]]:
    """Copies of the checkout, one for each process."""
    for name in PRELOADED:
        import_module(name)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copies = [Path(folder) / str(number) for number in range(count)]
        for copy in copies:
            copy.mkdir()
            for name in COPIED:
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, copy / name, ignore=NOT_COPIED)
                else:
                    shutil.copy(ROOT / name, copy)
        yield copies


def _all_of(tasks: list[Callable[[Path], Trial]], copies: list[Path], until: float = float("inf")) -> None:
    """Do tasks, one on each copy at a time."""
    waiting, free, going = deque(tasks), list(copies), list[Trial]()
    try:
        while going or (waiting and time.monotonic() < until):
            while waiting and free and time.monotonic() < until:
                going.append(waiting.popleft()(free.pop()))
            for trial in list(going):
                late = time.monotonic() - trial.began > trial.limit
                pid, status = os.waitpid(trial.pid, os.WNOHANG)
                if late or pid:
                    _end(trial, waited=bool(pid))
                    going.remove(trial)
                    free.append(trial.copy)
                    said = trial.copy / "said.json"
                    wrote = json.loads(said.read_text()) if said.exists() else {}
                    trial.done(os.waitstatus_to_exitcode(status) if pid else None, wrote)
            time.sleep(0.02)
    finally:
        for trial in going:
            _end(trial, waited=False)


def _end(trial: Trial, waited: bool) -> None:
    """Kill a process and what it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(trial.pid, signal.SIGKILL)
    if not waited:
        os.waitpid(trial.pid, 0)


def _start(copy: Path, tests: list[str], known: Times | None, slowest: float, limit: float, done: Any) -> Trial:
    """Fork a process that runs these tests in this copy."""
    (copy / "said.json").unlink(missing_ok=True)
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return Trial(pid, time.monotonic(), limit, done, copy)
    status = 3
    try:
        os.setsid()
        os.chdir(copy)
        os.environ["PYTHONPATH"] = f"{copy / 'src'}{os.pathsep}{copy}"
        with open("output", "w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        for name in [name for name in sys.modules if name.split(".")[0] in ("benchmarks", "tests", "popbandits")]:
            del sys.modules[name]
        order = Order(known, slowest)
        arguments = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "--hypothesis-seed=0",
            f"--basetemp={copy / 'tmp'}",
        ]
        status = int(pytest.main([*arguments, *(["-x"] if known else []), *tests], plugins=[order]))
        Path("said.json").write_text(json.dumps({"times": order.times, "failed": order.failed}))
    finally:
        os._exit(status)
