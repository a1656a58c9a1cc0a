"""The live view: what stands where, on a terminal of any size, and what its drawing costs."""

import io
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, Population
from popbandits.history import Event
from popbandits.views.capture import OutputCapture
from popbandits.views.progress import Progress
from popbandits.views.terminal import (
    BOTTOM_MEMBERS,
    COLUMNS,
    MAX_COPIES_NAMED,
    MAX_CPU_SHARE,
    MAX_FAILURE_LINES,
    MIN_REDRAW_SECONDS,
    TOP_MEMBERS,
    LineView,
    LiveView,
    terminal_view,
)
from tests.engines.agents import space
from tests.views.screens import stop_the_clock
from tests.views.test_terminal import drawn, followed

# What stands where


@pytest.mark.parametrize("failures", [0, 2, 3])
@pytest.mark.parametrize("height", [15, 17, 20])
def test_a_large_population_fills_the_terminal_but_for_the_line_of_the_cursor(failures: int, height: int) -> None:
    progress = followed(0, size=30)
    for number in range(failures):
        progress.happened(Event("raised", f"ValueError: {number}", number, 0))
    lines = drawn(progress, 120, height)
    assert len(lines) == height - 1
    assert lines[0].startswith("runs/x ")
    assert lines[1].startswith("0 of 10 rounds ")
    assert lines[2].startswith("Best –   mean ")
    assert lines[3] == ""
    assert lines[4].startswith("member ")
    said = lines[-1 - failures : -1]
    assert said == [f"member {number}, round 0: raised: ValueError: {number}" for number in range(failures)]
    assert lines[-2 - failures] == ""
    rows = lines[5 : -2 - failures]
    assert rows[-1 - BOTTOM_MEMBERS].split() == ["⋮", str(31 - len(rows)), "others"]
    assert all(row.split()[1] == "training" for row in rows[: -1 - BOTTOM_MEMBERS] + rows[-BOTTOM_MEMBERS:])


def test_on_a_small_terminal_members_come_before_failures() -> None:
    progress = followed(0, size=30)
    for number in range(3):
        progress.happened(Event("raised", "ValueError", number, 0))
    lines = drawn(progress, 120, 13)
    assert sum(line.endswith("ValueError") for line in lines) == 1
    assert len(lines) == 12


@pytest.mark.parametrize(
    ("size", "others"), [(TOP_MEMBERS + BOTTOM_MEMBERS + 1, None), (TOP_MEMBERS + BOTTOM_MEMBERS + 2, "2 others")]
)
def test_members_are_left_out_only_where_there_is_no_room(size: int, others: str | None) -> None:
    lines = drawn(followed(0, size=size), 120, 60)
    start = next(place for place, line in enumerate(lines) if line.startswith("member"))
    rows = lines[start + 1 : lines.index("", start)]
    assert len(rows) == TOP_MEMBERS + 1 + BOTTOM_MEMBERS
    assert [" ".join(row.split()) for row in rows if "⋮" in row] == ([] if others is None else [f"⋮ {others}"])


def test_hyperparameters_are_shown_as_far_as_there_is_room_and_the_others_counted() -> None:
    progress, names, before = followed(8), ["epochs", "lr", "optimizer", "momentum"], 0
    for width in range(60, 110):
        lines = drawn(progress, width)
        header = next(line for line in lines if line.startswith("member"))
        shown = header.split()[len(COLUMNS) :]
        hidden = int(shown.pop()) if shown and shown[-1].startswith("+") else 0
        assert shown == names[: len(shown)]
        assert len(shown) + hidden == len(names)
        assert len(shown) >= before
        table = lines[lines.index(header) :][:5]
        assert "…" not in "".join(table)
        if len(shown) > before and width > 60:  # each as soon as it fits, with a count of two digits beside it
            assert max(map(len, table)) == (width - 1 if hidden else width)
        before = len(shown)
    assert before == len(names)


def test_a_line_that_is_too_long_is_cut_not_wrapped() -> None:
    progress = followed(12)
    progress.deciding = 1.0
    for number in range(3):
        progress.happened(Event("raised", "ValueError: " + "long " * 20, number, 0))
    lines = drawn(progress, 60)
    assert lines[2].startswith("Best ")
    assert lines[2].endswith("…")
    assert lines[3] == ""
    assert sum(line.startswith("member ") and line.endswith("…") for line in lines) == 3
    assert lines[-1].startswith("Ctrl-C stops it")
    assert lines[-1].endswith("…")


@pytest.mark.parametrize(
    ("ending", "left", "said"),
    [
        ("", True, "Ctrl-C stops it after the intervals in training; it can be resumed."),
        ("stopping", True, "Stopping after the intervals in training. Ctrl-C again stops at once."),
        ("stopped", False, "Stopped. To resume: popbandits resume runs/x"),
        ("finished", False, r"Finished in 50(\.0+)? s."),
    ],
)
def test_the_time_left_is_told_until_the_end(
    ending: str, left: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_the_clock(monkeypatch)
    progress = followed(10)
    progress.begun -= 50
    if ending:
        progress.happened(Event(ending))
    lines = drawn(progress)
    assert re.search(r"0:50 elapsed(, about 2:30 left)?$", lines[1])
    assert ("left" in lines[1]) == left
    assert re.fullmatch(said, lines[-1])


def test_a_resumed_run_tells_the_time_left_by_its_own_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_the_clock(monkeypatch)
    population = Population(space(), PBT(), size=4, rounds=10)
    for round_ in range(3):
        if round_ == 2:
            progress = Progress()
            progress.opened(population, Path("runs/x"))
            assert progress.left is None
        for assignment in population.ask():
            population.tell(assignment, 1.0)
            if round_ == 2:
                progress.told(population.history[-1])
    progress.begun -= 40.0  # ten seconds an interval
    assert progress.left == pytest.approx(280.0)


def test_a_run_without_an_end_counts_its_rounds() -> None:
    population = Population(space(), PBT(), size=2, rounds=None)
    progress = Progress()
    progress.opened(population, Path("runs/x"))
    assert drawn(progress)[1] == "0 rounds done   0:00 elapsed"
    for assignment in population.ask():
        population.tell(assignment, 1.0)
        progress.told(population.history[-1])
    assert drawn(progress)[1] == "1 round done   0:00 elapsed"


# Lines


@pytest.mark.parametrize("copies", [MAX_COPIES_NAMED - 1, MAX_COPIES_NAMED, MAX_COPIES_NAMED + 1])
def test_a_line_names_some_copies_and_counts_the_others(copies: int, capsys: pytest.CaptureFixture[str]) -> None:
    population = Population(space(), PBT(), size=2 * copies, rounds=3, quantile=0.5)
    lines = LineView()
    lines.opened(population, Path("runs/x"))
    for _ in range(2):
        assignments = population.ask()
        lines.asked(population.decided)
        for assignment in assignments:
            population.tell(assignment, float(assignment.member))
            lines.told(population.history[-1])
    first, second = capsys.readouterr().err.splitlines()[1:]
    assert "copied" not in first
    assert second.count(" copied ") == min(copies, MAX_COPIES_NAMED)
    assert ("more" in second) == (copies > MAX_COPIES_NAMED)
    assert copies <= MAX_COPIES_NAMED or second.endswith(f", {copies - MAX_COPIES_NAMED} more")


def test_failures_are_named_again_in_every_round(capsys: pytest.CaptureFixture[str]) -> None:
    population = Population(space(), PBT(), size=MAX_FAILURE_LINES + 2, rounds=3)
    lines = LineView()
    lines.opened(population, Path("runs/x"))
    for _ in range(2):
        for assignment in population.ask():
            population.tell(assignment, None if assignment.member else 1.0)
            if assignment.member:
                lines.happened(Event("raised", "ValueError", assignment.member, assignment.round))
            lines.told(population.history[-1])
    said = capsys.readouterr().err.splitlines()[1:]
    for round_, part in enumerate((said[: MAX_FAILURE_LINES + 1], said[MAX_FAILURE_LINES + 1 :])):
        assert part[:-1] == [f"member {m}, round {round_}: raised: ValueError" for m in range(1, MAX_FAILURE_LINES + 1)]
        assert part[-1].endswith(f"{MAX_FAILURE_LINES + 1} failed")


# On a terminal


def test_a_live_view_needs_the_terminal_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for python, kernel, kind in ((True, {2}, LiveView), (True, {0, 1, 3}, LineView), (False, {2}, LineView)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda answer=python: answer, raising=False)
        monkeypatch.setattr(os, "isatty", lambda number, known=kernel: number in known)
        assert type(terminal_view()) is kind


def test_a_live_view_leaves_no_file_no_thread_and_the_streams_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: True)
    streams, files, threads = (sys.stdout, sys.stderr), len(os.listdir("/dev/fd")), set(threading.enumerate())
    view = LiveView()
    view.opened(Population(space(), PBT(), size=2, rounds=2), Path("runs/x"))
    try:
        assert (sys.stdout, sys.stderr) == streams
        assert [thread.name for thread in set(threading.enumerate()) - threads] == ["popbandits-view"]
    finally:
        view.closed()
    assert (sys.stdout, sys.stderr) == streams
    assert set(threading.enumerate()) == threads
    assert len(os.listdir("/dev/fd")) == files


class Hurried(threading.Event):
    """Waits for nobody, and notes for how long it should have; set after the third time."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: Any = None) -> bool:
        self.waits.append(timeout)
        if len(self.waits) == 3:
            self.set()
        return self.is_set()


@pytest.mark.parametrize("cost", [0.0, 0.02])
def test_drawing_takes_a_small_share_of_a_core(cost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    class Costly(LiveView):
        def _draw(self, printed: str) -> None:
            end = time.thread_time() + cost
            while time.thread_time() < end:
                pass

    monkeypatch.setattr(os, "isatty", lambda number: True)
    view = Costly()
    view._ended = ended = Hurried()
    view._printed = OutputCapture()
    try:
        view._keep_drawing()
    finally:
        view._printed.close()
        view._printed.terminal.close()
    assert len(ended.waits) == 3
    if cost:
        assert min(ended.waits) >= cost / MAX_CPU_SHARE
    else:
        assert min(ended.waits) == MIN_REDRAW_SECONDS == 0.25


def test_letters_that_a_terminal_does_not_know_do_not_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: True)
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    printed = OutputCapture()
    try:
        assert printed.terminal.write("← – 学") == 5
        printed.terminal.flush()
    finally:
        printed.close()
        printed.terminal.close()
