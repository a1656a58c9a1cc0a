"""Trials of mutants: each in a copy of the checkout, in a forked process that runs pytest until a failure."""

import ast
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from popbandits_experiments.mutation import calls
from popbandits_experiments.mutation.mutants import ROOT, Mutant

TESTS = {
    "models": ("tests/models", "tests/explorers/test_arms.py", "tests/explorers/test_fits.py"),
    "explorers": ("tests/explorers", "tests/population", "tests/run/test_bad_inputs.py"),
    "selection": ("tests/selection", "tests/run/test_selected_runs.py"),
    "population": ("tests/population", "tests/explorers/test_methods.py", "tests/run/test_bad_inputs.py"),
    "engines": ("tests/engines", "tests/run", "experiments/tests/reliability/test_kills.py"),
    "run": ("tests/run", "tests/engines", "tests/basics/test_settings.py"),
    "views": ("tests/views", "tests/engines"),
    "storage": ("tests/storage", "tests/history", "tests/run", "tests/engines"),
}
"""Tests that should notice a change in each folder, besides the doctests of the file."""

COPIED = ("src", "tests", "experiments", "docs", "examples", "pyproject.toml", "conftest.py")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "golden", "results", "*.png")
OURS = ("experiments", "popbandits", "popbandits_experiments", "tests")
"""Packages that a trial imports anew."""
SLACK = 120.0
"""Seconds that a trial may take in addition to ten times what its tests take without a change."""
HANGS = 30.0
"""Seconds that a single test may take in addition to the same."""
LONGEST = 120.0
"""Seconds that a test may take without a change; if it takes longer, it and those measured with it are left out."""
BRIEF = 0.2
"""Seconds up to which every case of a test is tried: a hundred of them cost no more than one slow test."""
PARTS = 4
"""Number of processes that measure the tests of one file."""
PRELOADED = ("numpy", "scipy.optimize", "scipy.stats", "ConfigSpace", "threadpoolctl", "rich.console", "sqlite3")
"""Libraries imported once, before processes are forked; our own modules are not."""
SAID = "said.json"
"""File to which a process writes the results of its plugin."""
UNFINISHED = "unfinished"
"""Outcome of a trial that was cut off; it counts as not killed until it is tried again."""


@dataclass
class Known:
    """Time and calls of a test that passes without a change."""

    seconds: float
    calls: list[str]
    """Our functions that the test calls, in its own process and those that it starts, as `file:line`."""


Tests = dict[str, Known]
OUTCOMES = {None: "timeout", -signal.SIGALRM: "timeout", 0: "survived", 1: "killed", 2: "killed", 5: "survived"}
"""Outcomes by pytest's exit status: 2 means a file that cannot be imported, 5 a mutant without tests."""


class Watch:
    """A pytest plugin that records which tests fail, how long each takes, and what it calls."""

    def __init__(self, copy: Path, part: int, parts: int):
        self.share = slice(part, None, parts)
        shutil.copy(calls.__file__, copy / "sitecustomize.py")  # for the processes that tests start
        self.copy, self.source = copy, f"{copy}{os.sep}src{os.sep}"
        self.seconds: Counter[str] = Counter()
        self.calls: dict[str, list[str]] = {}
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        import popbandits

        items[:] = items[self.share]

        assert popbandits.__file__.startswith(self.source), "the tested copy is not the changed one"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        signal.alarm(int(LONGEST))
        path = self.copy / "called"
        path.write_text("")
        os.environ[calls.CALLED] = str(path)
        stop = calls.watch()
        try:
            return (yield)
        finally:
            stop()
            signal.alarm(0)
            del os.environ[calls.CALLED]
            self.calls[item.nodeid] = sorted(set(path.read_text().split()))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def said(self) -> dict[str, Any]:
        """Return the results."""
        good = {name: seconds for name, seconds in self.seconds.items() if name not in self.failed}
        return {"tests": {n: (s, self.calls[n]) for n, s in good.items()}, "failed": self.failed}


class Notice:
    """A pytest plugin that runs the given tests in order, and records which of them failed.

    A test that takes half a minute more than ten times its usual time ends the process: it would probably never end.
    """

    def __init__(self, tests: Tests):
        self.usual = {name: known.seconds for name, known in tests.items()}
        self.places = {name: place for place, name in enumerate(tests)}
        self.failed: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        signal.alarm(int(10.0 * self.usual[item.nodeid] + HANGS))
        try:
            return (yield)
        finally:
            signal.alarm(0)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        chosen = [item for item in items if item.nodeid in self.places]
        items[:] = sorted(chosen, key=lambda item: self.places[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def said(self) -> dict[str, Any]:
        """Return the results."""
        return {"failed": self.failed}


@dataclass
class Trial:
    """A running process."""

    pid: int
    began: float
    limit: float
    done: Callable[[int | None, dict[str, Any]], None]
    """Called with the exit status, None if it took too long, and the results."""
    copy: Path


def files_with_tests(file: str) -> list[str]:
    """Return the files with the tests that should notice a change in a file, including its own doctests."""
    places = [ROOT / place for place in TESTS[Path(file).parts[2]]]
    found = [path for place in places for path in (sorted(place.glob("test_*.py")) if place.is_dir() else [place])]
    return [file, *(path.relative_to(ROOT).as_posix() for path in found)]


@dataclass(frozen=True)
class Limits:
    """Time limits of tests, in seconds as measured without a change."""

    slowest: float = 10.0
    """Maximum time of a test; slower ones are left out."""
    together: float = 120.0
    """Maximum time of all tests of a mutant; the slowest are left out."""


def choose(mutant: Mutant, tests: Tests, limits: Limits) -> list[str]:
    """Return the tests that call the changed function, or all of its folder if none does; fast ones first, and further
    cases of a slow test after the first case of every other."""
    files = set(files_with_tests(mutant.file))
    near = {n: known for n, known in tests.items() if n.split("::")[0] in files and known.seconds <= limits.slowest}
    lines = {f"{mutant.file}:{line}" for line in _function_at(mutant)}
    touching = {name for name, known in near.items() if not lines.isdisjoint(known.calls)}
    cases: Counter[str] = Counter()
    places = {}
    for name in sorted(touching or near, key=lambda name: near[name].seconds):
        test = name.split("[")[0]
        places[name] = cases[test]
        cases[test] += 1
    ordered = sorted(places, key=lambda n: (places[n] if near[n].seconds > BRIEF else 0, near[n].seconds))
    spent = accumulate(near[name].seconds for name in ordered)
    return [name for name, seconds in zip(ordered, spent, strict=True) if seconds <= limits.together]


def _function_at(mutant: Mutant) -> range:
    """Return the lines of the outermost function that is changed; none outside of functions."""
    tree = ast.parse((ROOT / mutant.file).read_text("utf-8"))
    functions = [
        node
        for body in (tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef)))
        for node in body
        if isinstance(node, ast.FunctionDef)
    ]
    for function in functions:
        first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        if first <= mutant.line <= (function.end_lineno or 0):
            return range(first, (function.end_lineno or 0) + 1)
    return range(0)


def measure(files: list[str], copies: list[Path], keep: Callable[[str, Tests], None]) -> None:
    """Run the tests of these files once without a change, and call `keep` for each file; tests that fail are left out
    of the trials."""

    parts = {file: PARTS if file.startswith("tests") else 1 for file in files}
    found: dict[str, list[Tests]] = {file: [] for file in files}

    def done(file: str, status: int | None, said: dict[str, Any]) -> None:
        for name in said.get("failed", [f"some of {file} (it ended with {status})"]):
            print(f"fails without a change and is left out: {name}", flush=True)
        found[file].append({name: Known(*known) for name, known in said.get("tests", {}).items()})
        if len(found[file]) == parts[file]:
            keep(file, {name: known for tests in found[file] for name, known in tests.items()})

    shares = [(file, part) for file in files for part in range(parts[file])]
    watches = [partial(Watch, part=part, parts=parts[file]) for file, part in shares]
    starts = [
        partial(_start, [file], watch, [], 3600.0, partial(done, file))
        for (file, _), watch in zip(shares, watches, strict=True)
    ]
    _all_of(starts, copies)


def run(mutants: list[Mutant], tests: Tests, copies: list[Path], limits: Limits, results: Path, until: float) -> None:
    """Try mutants until the time is over, each on a copy; append a line to `results` for each."""
    begun: set[int] = set()

    def keep(mutant: Mutant, **outcome: Any) -> None:
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"id": mutant.id, **outcome}) + "\n")
        begun.discard(mutant.id)

    def trial(mutant: Mutant, copy: Path) -> Trial:
        path = copy / mutant.file
        original, kept = path.read_text("utf-8"), path.stat()
        path.write_text(mutant.applied(original), "utf-8")
        # Python compares compiled code with its source by the second: every mutant gets a different one.
        os.utime(path, (1e9 + mutant.id, 1e9 + mutant.id))
        chosen = choose(mutant, tests, limits)
        began = time.monotonic()

        def done(status: int | None, said: dict[str, Any]) -> None:
            path.write_text(original, "utf-8")
            os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
            crashed = status is not None and status < 0
            outcome = OUTCOMES.get(status, "killed" if crashed else f"error {status}")
            seconds, by = round(time.monotonic() - began, 1), next(iter(said.get("failed", ())), None)
            keep(mutant, outcome=outcome, seconds=seconds, tests=len(chosen), by=by)
            print(f"{outcome:<9}{seconds:>7.1f} s  {mutant.file}:{mutant.line} {mutant.kind}", flush=True)

        files = sorted({name.split("::")[0] for name in chosen}) or [mutant.file]  # without any, pytest runs all
        limit = 10.0 * sum(tests[name].seconds for name in chosen) + SLACK
        begun.add(mutant.id)
        return _start(files, lambda _: Notice({name: tests[name] for name in chosen}), ["-x"], limit, done, copy)

    try:
        _all_of([partial(trial, mutant) for mutant in mutants], copies, until)
    finally:  # The longest trials are cut off most often, and are survivors more often than others.
        for mutant in mutants:
            if mutant.id in begun:
                keep(mutant, outcome=UNFINISHED)


@contextmanager
def make_copies(count: int) -> Iterator[list[Path]]:
    """Make copies of the checkout, one for each process."""
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


def _all_of(tasks: Sequence[Callable[[Path], Trial]], copies: list[Path], until: float = float("inf")) -> None:
    """Do all tasks, one at a time on each copy."""
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
                    said = trial.copy / SAID
                    told = json.loads(said.read_text()) if said.exists() else {}
                    trial.done(os.waitstatus_to_exitcode(status) if pid else None, told)
            time.sleep(0.02)
    finally:
        for trial in going:
            _end(trial, waited=False)


def _end(trial: Trial, waited: bool) -> None:
    """Kill a process and its children."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(trial.pid, signal.SIGKILL)
    if not waited:
        os.waitpid(trial.pid, 0)


def _start(
    tests: list[str], plugin: Callable[[Path], Any], arguments: list[str], limit: float, done: Any, copy: Path
) -> Trial:
    """Fork a process that runs these tests in this copy."""
    (copy / SAID).unlink(missing_ok=True)
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return Trial(pid, time.monotonic(), limit, done, copy)
    status = 3
    try:
        os.setsid()
        os.chdir(copy)
        others = os.environ.get("PYTHONPATH", "").split(os.pathsep)  # where libraries may be
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [str(copy / "src"), str(copy / "experiments/src"), str(copy), *filter(os.path.isabs, others)]
        )
        with open("output", "w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
            del sys.modules[name]
        watching = plugin(copy)
        plain = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0", f"--basetemp={copy / 'tmp'}"]
        status = int(pytest.main([*plain, *arguments, *tests], plugins=[watching]))
        Path(SAID).write_text(json.dumps(watching.said()))
    finally:
        os._exit(status)
