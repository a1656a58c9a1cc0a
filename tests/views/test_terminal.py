"""What a run looks like: plain lines, and a live view on a terminal that nobody tears apart."""

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import popbandits
from popbandits import PBT, Population
from popbandits.history import Assignment, Decision, Event, Observation
from popbandits.run import Result, resume, tune
from popbandits.views import capture as capture_module
from popbandits.views.capture import MAX_BUFFER_BYTES, OutputCapture
from popbandits.views.progress import Progress
from popbandits.views.terminal import BOTTOM_MEMBERS, COLUMNS, TOP_MEMBERS, LineView, LiveView, screen, terminal_view
from popbandits.views.view import View
from tests.engines.agents import Walker, space
from tests.views.screens import displayed, stop_the_clock

ROOT = Path(__file__).parents[2]


def tuned(view: bool | View, directory: Path, agent: Any = Walker, **settings: Any) -> None:
    settings = {"method": PBT(), "rounds": 4} | settings
    tune(agent, space(), directory=directory, progress=view, **settings)


# Lines


def test_elsewhere_than_on_a_terminal_there_is_a_line_for_each_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(True, tmp_path)
    out, err = capsys.readouterr()
    assert out == ""
    first, *rounds, last = err.splitlines()
    assert first == f"{tmp_path}: PBT, 4 members, 4 rounds"
    assert [line.split()[0] for line in rounds] == ["1/4", "2/4", "3/4", "4/4"]
    figure = r"-?[\d.]+"
    for place, line in enumerate(rounds):
        copies = r"  \d copied \d(, \d copied \d)*" if place else ""
        assert re.fullmatch(rf"\d/4 rounds  best {figure}  mean {figure}  [\d.:]+ m?s{copies}", line)
    assert last.startswith("Finished in ")


@pytest.mark.parametrize(("explore", "who"), [("replaced", "one agent, nothing tuned"), ("all", "PBT, 1 member")])
def test_an_agent_that_nothing_tunes_is_not_called_by_a_method(
    explore: Any, who: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(True, tmp_path, population=1, explore=explore)
    assert capsys.readouterr().err.splitlines()[0] == f"{tmp_path}: {who}, 4 rounds"


def test_in_asynchronous_mode_there_is_a_line_for_as_many_intervals_as_there_are_members(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(True, tmp_path, synchronous=False, population=3, rounds=5)
    rounds = capsys.readouterr().err.splitlines()[1:-1]
    assert [line.split()[0] for line in rounds] == ["1/5", "2/5", "3/5", "4/5", "5/5"]


class Wrong(Walker):
    def train(self, config: dict[str, Any]) -> Any:
        if config["optimizer"] == "sgd":
            raise ValueError("the loss exploded\nin several lines")
        return super().train(config)


def test_failures_are_a_line_each_but_never_a_flood(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuned(True, tmp_path, agent=Wrong, population=30, rounds=1)
    lines = capsys.readouterr().err.splitlines()
    failures = [line for line in lines if "ValueError" in line]
    assert 3 <= len(failures) <= 4  # that of the last member comes after the line of its round
    for line in failures:
        assert re.fullmatch(r"member \d+, round 0: raised: ValueError: the loss exploded", line)
    assert any(line.startswith("1/1 rounds") and line.endswith("15 failed") for line in lines)


class Stopper(LineView):
    """Asks for a stop, as Ctrl-C does, after so many observations."""

    def __init__(self, after: int):
        super().__init__()
        self.after = after

    def told(self, observation: Observation) -> None:
        super().told(observation)
        if self.done == self.after:
            os.kill(os.getpid(), 2)


def test_a_stopped_run_says_how_to_go_on_and_a_resumed_one_where_it_stood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(Stopper(after=5), tmp_path)
    said = capsys.readouterr().err
    assert "Stopping after the intervals in training. Ctrl-C again stops at once.\n" in said
    assert said.endswith(f"Stopped. To resume: popbandits resume {tmp_path}\n")
    resume(tmp_path)
    first, *rounds, _ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(rf"{tmp_path}: PBT, 4 members, 4 rounds, [5-8] intervals done", first)
    assert rounds[-1].startswith("4/4 rounds")


class Stuck(Walker):
    """Never learns."""

    def train(self, config: dict[str, Any]) -> float:
        return 1.0


STUCK = "Warning: The leading member has not got better by more than noise explains: "


def test_warnings_come_once_after_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuned(True, tmp_path, agent=Stuck, rounds=10, population=2)
    lines = capsys.readouterr().err.splitlines()
    assert sum(line.startswith(STUCK) for line in lines) == 1
    assert lines[-2].startswith("Finished in ")
    assert lines[-1].startswith(STUCK)


def test_a_stopped_run_says_its_warnings_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuned(Stopper(after=20), tmp_path, agent=Stuck, rounds=20, population=2)
    stopped, warning = capsys.readouterr().err.splitlines()[-2:]
    assert stopped.startswith("Stopped. To resume: ")
    assert warning.startswith(STUCK)


def test_a_standard_error_that_is_gone_does_not_end_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    tuned(True, tmp_path)
    monkeypatch.setattr(sys, "stderr", None)
    assert type(terminal_view()) is View


def test_a_terminal_that_can_do_nothing_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(os, "isatty", lambda number: True)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(terminal_view(), LineView)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(terminal_view(), LiveView)


# What there is to show


def followed(told: int, size: int = 4, mode: Any = "max", workers: int | None = None, **settings: Any) -> Progress:
    """A view of a run that has come so far, in which each eleventh interval failed."""
    population = Population(space(), PBT(), size=size, rounds=10, mode=mode, **settings)
    progress = Progress(workers)
    progress.opened(population, Path("runs/x"))
    while True:
        if assignments := population.ask():
            progress.asked(population.decided)
        for assignment in assignments:
            if progress.done == told:
                return progress
            failed = progress.done % 11 == 10
            population.tell(assignment, None if failed else assignment.round * 100.0 + assignment.member)
            progress.told(population.history[-1])
            if failed:
                progress.happened(Event("raised", "ValueError: no\nmore", assignment.member, assignment.round))


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("told", [0, 3, 8, 13, 30])
def test_the_best_and_the_mean_are_those_of_the_history(mode: Any, told: int) -> None:
    progress = followed(told, mode=mode)
    history = progress.population.history
    assert progress.best == history.best
    scores = [o.score for m in range(4) if (o := history.last_completed(m)) is not None]
    assert progress.mean == pytest.approx(sum(scores) / len(scores) if scores else float("nan"), nan_ok=True)
    again = Progress()  # of a run that is resumed here
    again.opened(progress.population, Path("runs/x"))
    assert (again.best, again.done) == (progress.best, told)
    assert again.mean == pytest.approx(progress.mean, nan_ok=True)
    assert [m.last for m in again.members] == [m.last for m in progress.members]


@pytest.mark.parametrize(
    ("workers", "told", "states"),
    [
        (None, 0, ["training"] * 4),
        (1, 0, ["training", "waiting", "waiting", "waiting"]),
        (2, 0, ["training", "training", "waiting", "waiting"]),
        (1, 1, ["idle", "training", "waiting", "waiting"]),
        (2, 5, ["idle", "training", "training", "waiting"]),
        (1, 11, ["idle", "idle", "failed", "training"]),
        (1, 39, ["done", "done", "done", "training"]),
    ],
)
def test_every_member_has_a_state(workers: int | None, told: int, states: list[str]) -> None:
    assert followed(told, workers=workers).states() == states


def test_what_a_stop_keeps_from_beginning_waits() -> None:
    progress = followed(5)
    assert progress.states() == ["idle", "training", "training", "training"]
    progress.happened(Event("stopping"))
    assert progress.states() == ["idle", "training", "training", "training"]
    again = [Decision(Assignment(0, 2, {}), known=5)]
    progress.asked(again)
    assert progress.states()[0] == "waiting"
    progress.happened(Event("stopped"))
    assert progress.states() == ["waiting"] * 4


def test_the_time_left_follows_from_the_pace_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_the_clock(monkeypatch)
    progress = followed(10)
    progress.begun -= 50  # ten of forty intervals took fifty seconds
    assert progress.left == pytest.approx(150)
    assert followed(0).left is None


def drawn(progress: Progress, width: int = 100, height: int = 40) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system=None, width=width, height=height)
    console.print(screen(progress, width, height))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= height
    return [line.rstrip() for line in lines]


def test_the_screen_shows_the_run_and_every_member() -> None:
    lines = drawn(followed(11, workers=2))
    text = "\n".join(lines)
    assert re.match(r"runs/x +PBT, 4 members$", lines[0])
    assert lines[1].startswith("2 of 10 rounds")
    assert "0:00 elapsed" in lines[1]
    assert "Best 201 (member 1, round 2)" in text
    assert "1 failed" in text
    header = next(line for line in lines if line.startswith("member"))
    assert header.split() == [*COLUMNS, "epochs", "lr", "optimizer", "momentum"]
    rows = lines[lines.index(header) + 1 :][:4]
    assert [row.split()[:4] for row in rows] == [
        ["0", "idle", "2", "200"],
        ["1", "idle", "2", "201"],
        ["2", "failed", "2", "failed"],
        ["3", "training", "2", "103"],
    ]
    assert "member 2, round 2: raised: ValueError: no" in lines
    assert lines[-1].startswith("Ctrl-C stops it")


def test_who_copied_whom_is_shown() -> None:
    progress = followed(16)
    [copier] = [m for m in progress.members if m.next is not None and m.next.parent != m.last.key]  # type: ignore[union-attr]
    [row] = [line for line in drawn(progress) if "←" in line]
    assert row.split()[0] == str(copier.number)
    assert f"← {copier.next.parent[0]} " in row  # type: ignore[union-attr, index]


def test_of_a_large_population_the_best_and_the_worst_are_shown() -> None:
    lines = drawn(followed(1500, size=1000))
    start = next(place for place, line in enumerate(lines) if line.startswith("member"))
    rows = [line.split() for line in lines[start + 1 : start + 2 + TOP_MEMBERS + BOTTOM_MEMBERS]]
    scores = [float(row[3].replace(",", "")) for row in rows if row[0].isdigit() and row[3] not in ("failed", "–")]
    assert scores == sorted(scores, reverse=True)
    assert rows[0][0] == "999"  # of the first round: no second round takes it back
    assert rows[TOP_MEMBERS] == ["⋮", "988", "others"]
    assert len(rows) == TOP_MEMBERS + 1 + BOTTOM_MEMBERS


@pytest.mark.parametrize("width", [60, 80, 120, 250])
@pytest.mark.parametrize("height", [12, 24, 60])
def test_the_screen_fits_whatever_the_size_of_the_terminal(width: int, height: int) -> None:
    text = "\n".join(drawn(followed(50, size=8), width, height))
    assert "+" in text or width > 80  # a count of the hyperparameters that do not fit
    assert ("momentum" in text) == (width > 80)


def test_what_a_user_names_is_shown_as_text() -> None:
    names = {"[red]lr[/red]": (0.0, 1.0), "wide 学習率": ["[bold]a", "b\n\x1b[2J", "c" * 99]}
    population = Population(names, PBT(), size=3, rounds=2)
    progress = Progress()
    progress.opened(population, Path("runs/[x]\n"))
    population.ask()
    progress.asked(population.decided)
    progress.happened(Event("raised", "[link=x]ValueError\x1b[2J: no", 0, 0))
    text = "\n".join(drawn(progress))
    assert "runs/[x]" in text
    assert "[red]lr[/red]" in text
    assert "wide 学習率" in text
    assert "[bold]a" in text
    assert "c" * 19 + "…" in text
    assert "[link=x]ValueError" in text
    assert "\x1b" not in text


# On a real terminal

SCRIPT = """
import os, subprocess, sys
from pathlib import Path
from popbandits import PBT, tune
from tests.engines.agents import Walker, space

class Talker(Walker):
    def train(self, config):
        sys.stdout.write("printed by an agent\\n")  # At once: print() lets another thread write before the newline.
        sys.stderr.write("an error of an agent\\n")
        subprocess.run(["echo", "printed by a program"])
        return super().train(config)

if __name__ == "__main__":
    engine, directory = sys.argv[1:]
    tune(Talker, space(), PBT(), directory=directory, engine=engine, population=3, rounds=3)
    print("printed afterwards")
"""


def on_a_terminal(command: Sequence[str]) -> tuple[int, str]:
    """Run a command in a terminal of its own; its exit status and all that it sent there."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(popbandits.__file__).parents[1]), str(ROOT)])
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT)
    os.close(theirs)
    received = b""
    while True:
        try:
            new = os.read(ours, 1 << 16)
        except OSError:  # The last process that could write has ended.
            new = b""
        if not new:
            break
        received += new
    os.close(ours)
    return process.wait(), received.decode()


# Threads print where agents in this process do.
@pytest.mark.parametrize("engine", ["in-process", pytest.param("threads", marks=pytest.mark.slow), "processes"])
def test_a_live_view_is_not_torn_apart_by_agents_that_print(engine: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    status, output = on_a_terminal([sys.executable, str(script), engine, str(tmp_path / "run")])
    assert status == 0, output
    lines = displayed(output)
    for printed in ("printed by an agent", "an error of an agent", "printed by a program"):
        assert lines.count(printed) == 9, lines
    [header] = [place for place, line in enumerate(lines) if line.startswith("member  state")]
    assert [line.split()[1] for line in lines[header + 1 : header + 4]] == ["done"] * 3
    assert lines[header - 4].startswith(str(tmp_path / "run"))
    assert lines[-3].startswith("Finished in ")
    assert lines[-2] == "printed afterwards"


def test_a_live_view_leaves_its_warnings_below_the_last_screen(tmp_path: Path) -> None:
    script = "import sys; from tests.views.test_terminal import Stuck, tuned; "
    script += "tuned(True, sys.argv[1], Stuck, rounds=10, population=2)"
    status, output = on_a_terminal([sys.executable, "-c", script, str(tmp_path / "run")])
    assert status == 0, output
    lines = displayed(output)
    [end] = [place for place, line in enumerate(lines) if line.startswith("Finished in ")]
    assert all(len(line) <= 100 for line in lines[end:])
    assert " ".join(lines[end + 1 :]).startswith(STUCK)
    assert "Warning" not in "".join(lines[:end])


def test_what_is_printed_is_caught_and_given_back(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: True)
    printed = OutputCapture()
    try:
        os.write(1, b"from here\n")
        subprocess.run(["echo", "from a program"], check=True)
        os.write(2, b"half a line")
        assert printed.read() == "from here\nfrom a program\n"
        assert printed.read() == ""
        os.write(2, b", and its end\nand more")
        assert printed.read() == "half a line, and its end\n"
        os.write(1, b"x" * 99 + b"\n")
    finally:
        last = printed.close()
    assert last == "and more" + "x" * 99 + "\n"
    printed.terminal.close()
    os.write(1, b"to the terminal again\n")
    assert capfd.readouterr().out == "to the terminal again\n"


def test_of_more_than_can_be_shown_the_end_is_and_no_disk_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: True)
    printed = OutputCapture()
    try:
        for number in range(5 * MAX_BUFFER_BYTES // 1000):
            os.write(1, f"{number:>999}\n".encode())
        first, *lines = printed.read().splitlines()
        assert os.fstat(printed._into).st_size == 0
        for _ in range(1000):
            os.write(2, b"\rstep 12 of a progress bar")
        assert printed.read() == ""
        os.write(2, b"\rdone\r\nas on Windows\r\n")
        assert printed.read() == "step 12 of a progress bar\rdone\nas on Windows\n"
    finally:
        assert printed.close() == ""
        printed.terminal.close()
    assert first.startswith("[...]")
    assert [int(line) for line in lines[1:]] == list(range(number - len(lines) + 2, number + 1))


def test_a_process_that_is_killed_leaves_none_of_what_was_printed_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    printed = OutputCapture()
    try:
        assert not list(tmp_path.iterdir())
    finally:
        printed.close()
        printed.terminal.close()


def test_who_never_stops_printing_fills_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: True)
    printed, real = OutputCapture(), os.fstat

    def printing(handle: int) -> os.stat_result:
        """Somebody prints just before the size of the file is asked for, every time."""
        os.write(1, b"x" * 9_999 + b"\n")
        return real(handle)

    try:
        monkeypatch.setattr(capture_module, "MAX_FILE_BYTES", 100_000)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fstat", printing)
            for _ in range(30):
                printed.read()
        assert real(printed._into).st_size <= 120_000
    finally:
        printed.close()
        printed.terminal.close()


def test_a_run_goes_on_without_a_view_if_there_is_no_room_for_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    tuned(LiveView(), tmp_path)
    assert Result(tmp_path).done


def test_a_view_that_never_opened_can_be_closed() -> None:
    LiveView().closed()
