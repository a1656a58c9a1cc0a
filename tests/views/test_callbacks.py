"""Callbacks: what they are told, and what their failures do to a run."""

import os
import signal
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from popbandits import ArgumentError, CSVTracker, Decision, Event, HistoryError, Observation, Population, View
from popbandits.cli import main
from popbandits.run import Experiment, resume, tune
from tests.engines.agents import Walker, space
from tests.trackers.runs import SETTINGS, begin_or_resume


class Diary(View):
    """Writes down everything."""

    def __init__(self) -> None:
        self.pages: list[Any] = []

    def opened(self, population: Population, directory: Path) -> None:
        self.pages.append(("opened", len(population.history), directory.name))

    def asked(self, decisions: Sequence[Decision]) -> None:
        self.pages.append(("asked", len(decisions)))

    def told(self, observation: Observation) -> None:
        self.pages.append(("told", observation.key))

    def happened(self, event: Event) -> None:
        self.pages.append(("happened", event.kind))

    def closed(self) -> None:
        self.pages.append("closed")


class Broken(View):
    """Fails in one of its methods, each time that it is called."""

    def __init__(self, method: str, error: Exception):
        self.calls = 0

        def fail(*news: Any) -> None:
            self.calls += 1
            raise error

        setattr(self, method, fail)


def test_callbacks_are_told_everything_and_a_resumed_run_s_history(tmp_path: Path) -> None:
    first, second = Diary(), Diary()
    begin_or_resume(tmp_path / "run", [first], rounds=1)
    round_ = [("asked", 3), ("told", (0, 0)), ("told", (1, 0)), ("told", (2, 0))]
    ends = [("happened", "finished"), "closed"]
    assert first.pages == [("opened", 0, "run"), ("happened", "started"), *round_, *ends]
    resume(tmp_path / "run", rounds=2, callbacks=[second], progress=False)
    assert second.pages[:3] == [("opened", 3, "run"), ("happened", "resumed"), ("asked", 3)]
    assert [page[1] for page in second.pages if page[0] == "told"] == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize("method", ["opened", "asked", "told", "happened", "stop", "closed"])
def test_a_callback_that_fails_is_named_once_and_left_out(method: str, tmp_path: Path) -> None:
    broken, after = Broken(method, ConnectionError("the server is away")), Diary()
    with pytest.warns(RuntimeWarning, match=rf"the callback Broken failed in {method} and is left out") as caught:
        history = begin_or_resume(tmp_path / "run", [broken, after])
    assert "ConnectionError: the server is away" in str(caught[0].message)
    assert (len(caught), broken.calls) == (1, 1)
    assert len(history) == 12
    assert len([page for page in after.pages if page[0] == "told"]) == 12
    assert after.pages[-1] == "closed"


def test_an_error_of_popbandits_in_a_callback_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"^the disk is another$"):
        begin_or_resume(tmp_path / "run", [Broken("told", HistoryError("the disk is another"))])
    assert len(begin_or_resume(tmp_path / "run", [])) == 12


class Busy(Diary):
    """Is told when it is made what it needs."""

    def __init__(self, needed: int):
        super().__init__()


@pytest.mark.parametrize("given", [Diary, [Diary], (Diary(),), Diary()])
def test_a_callback_alone_and_a_class_that_needs_nothing_are_taken(given: Any, tmp_path: Path) -> None:
    experiment = Experiment(Walker, space(), callbacks=given)
    [diary] = experiment.callbacks
    assert type(diary) is Diary
    assert replace(experiment, seed=1).callbacks == (diary,)  # It is made once.
    begin_or_resume(tmp_path / "run", given, rounds=1)


def test_a_callbacks_class_that_needs_more_is_refused_with_what_it_needs() -> None:
    with pytest.raises(ArgumentError) as caught:
        Experiment(Walker, space(), callbacks=[CSVTracker(), Busy])  # type: ignore[list-item]
    assert str(caught.value) == (
        "callbacks must be a list of View objects, got the class Busy (missing a required argument: 'needed'); make "
        "one, such as Busy(...)"
    )


@pytest.mark.parametrize("given", [[print], "csv", [str], [[CSVTracker]]])
def test_callbacks_that_are_none_are_refused(given: Any) -> None:
    with pytest.raises(ArgumentError, match="callbacks must be a list of View objects, got "):
        Experiment(Walker, space(), callbacks=given)


@pytest.mark.parametrize("engine", ["in-process", "threads"])
def test_callbacks_change_nothing(engine: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = begin_or_resume(tmp_path / "seen", [Diary(), CSVTracker()], engine=engine)
    alone = tune(Walker, space(), directory=tmp_path / "alone", engine=engine, **SETTINGS).history
    assert seen == alone


def test_the_command_line_takes_callbacks_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    begin_or_resume(tmp_path / "run", [], rounds=1)
    Path("tracked.py").write_text("from popbandits import CSVTracker\ncallbacks = [CSVTracker()]\nother = 3\n")
    assert main(["resume", "run", "--rounds", "2", "--callbacks", "tracked.py:callbacks"]) in (0, None)
    assert len((tmp_path / "run" / "observations.csv").read_text().splitlines()) == 7
    with pytest.raises(SystemExit):
        main(["resume", "run", "--callbacks", "tracked.py:other"])
    assert "callbacks must be a list of View objects, got 3" in capsys.readouterr().err


def test_a_callback_that_hangs_is_left_by_ctrl_c_and_told_nothing_more(tmp_path: Path) -> None:
    class Hanging(View):
        told_after = 0
        hangs = False

        def told(self, observation: Observation) -> None:
            self.hangs = True
            for _ in range(2):  # The user's, while it waits for a server.
                os.kill(os.getpid(), signal.SIGINT)

        def happened(self, event: Event) -> None:
            self.told_after += self.hangs and event.kind != "stopping"

        def closed(self) -> None:
            self.told_after += 1

    whole = tune(Walker, space(), directory=tmp_path / "whole", **SETTINGS)
    hanging = Hanging()
    with pytest.raises(KeyboardInterrupt):
        tune(Walker, space(), directory=tmp_path / "run", callbacks=[hanging], **SETTINGS)
    assert hanging.told_after == 0
    assert resume(tmp_path / "run", progress=False).history == whole.history
