"""Many runs, one after another or several at a time: what is done stays done, and time is kept."""

import json
import math
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ConfigSpace import Float

from popbandits import PBT, Experiment, History
from popbandits.agent import Outcome
from popbandits.errors import RunError
from popbandits.run.recipes import signed
from popbandits.run.signing import Signer
from popbandits.storage import Store
from popbandits.views.view import View
from popbandits_experiments.paper import grid
from popbandits_experiments.paper.grid import Limit, run_grid


@dataclass(frozen=True)
class Climb:
    """Makes agents that gain by what they are told to."""

    slope: float = 1.0
    device: str = "cpu"

    def __call__(self, seed: int) -> "Climber":
        return Climber(self.slope)


class Climber:
    def __init__(self, slope: float) -> None:
        self.slope, self.height = slope, 0.0

    def train(self, config: dict[str, Any]) -> Outcome:
        self.height += self.slope * config["step"]
        return Outcome(self.height, steps=100)

    def save(self, directory: Path) -> None:
        (directory / "height").write_text(json.dumps(self.height))

    def load(self, directory: Path) -> None:
        self.height = json.loads((directory / "height").read_text())


def experiments(folder: Path, **changes: Any) -> list[Experiment]:
    one = Experiment(Climb(), {"step": (0.1, 1.0)}, PBT(), population=2, rounds=4)
    return [replace(one, seed=seed, directory=folder / str(seed), **changes) for seed in range(2)]


def observed(directory: Path) -> list[tuple[Any, ...]]:
    return [(o.key, o.parent, dict(o.config), o.score) for o in History.load(directory)]


class Clock:
    """Every look at it takes a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(grid, "time", SimpleNamespace(monotonic=self.look))

    def look(self) -> float:
        self.now += 1
        return self.now


def no_view(experiment: Experiment) -> View:
    return View()


def test_a_grid_that_ran_out_of_time_goes_on_to_the_same_histories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_grid(experiments(tmp_path / "whole"), no_view)
    Clock(monkeypatch)
    sittings: list[int] = []
    while not run_grid(experiments(tmp_path), no_view, time_limit=3):
        sittings.append(sum(len(History.load(path.parent)) for path in tmp_path.glob("[01]/run.sqlite")))
        assert len(sittings) < 20
    assert sittings == [2, 4, 6, 8, 10, 12, 14]  # A round a sitting, and no half ones.
    for seed in "01":
        assert observed(tmp_path / seed) == observed(tmp_path / "whole" / seed)


def test_a_run_that_would_not_be_finished_in_time_is_not_begun_if_only_whole_ones_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    assert run_grid(experiments(tmp_path / "enough")[:1], no_view, time_limit=1000)
    enough = clock.now + 3  # For one run, and a round of another.
    for whole, lengths in ((False, [4, 1]), (True, [4])):
        folder = tmp_path / str(whole)
        assert not run_grid(experiments(folder), no_view, time_limit=enough, whole=whole)
        done = [len(History.load(folder / seed)) // 2 for seed in "01" if (folder / seed).exists()]
        assert done == lengths
    # What is begun goes on.
    assert not run_grid(experiments(tmp_path / "False"), no_view, time_limit=3, whole=True)
    assert len(History.load(tmp_path / "False" / "1")) > 2


def test_what_is_finished_is_left_alone(tmp_path: Path) -> None:
    first, second = experiments(tmp_path)
    assert run_grid([first], no_view)
    before = (tmp_path / "0" / "run.sqlite").stat().st_mtime_ns
    seen: list[Experiment] = []

    def view(experiment: Experiment) -> View:
        seen.append(experiment)
        return View()

    assert run_grid([first, second], view)
    assert seen == [second]
    assert (tmp_path / "0" / "run.sqlite").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agent": Climb(2.0)}, r"got slope 2\.0 for .*0, which has 1\.0; use that, or another folder"),
        ({"rounds": 5}, "got rounds 5 for .*, which has 4"),
        ({"method": PBT(resample=0.5)}, r"got method\.resample 0\.5 for .*, which has 0\.25"),
        ({"population": 3}, "got population 3 for .*, which has 2"),
        (
            {"space": {"step": Float("step", (0.1, 1.0), log=True)}},
            r"got space\.step 'float \[0\.1, 1\.0\] log' for .*, which has 'float \[0\.1, 1\.0\]'",
        ),
        ({"space": {"step": (0.1, 1.0), "kept": 2}}, r"got space\.kept 'always 2' for .*, which has None"),
        ({"start": [{"step": 0.5}]}, r"got start \[\{'step': 0\.5\}\] for .*, which has \[\]"),
    ],
)
def test_a_run_of_other_settings_is_refused_before_anything_runs(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    first, second = experiments(tmp_path)
    assert run_grid([first], no_view)
    with pytest.raises(RunError, match=f"a run must resume with the settings it was started with, {message}"):
        run_grid([second, replace(first, **changes)], no_view)
    assert not (tmp_path / "1").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        ({"agent": Climb(2.0)}, "got slope 2.0 for .*, which has 1.0"),
        ({"method": PBT(resample=0.5)}, "got method.resample 0.5 for .*, which has 0.25"),
    ],
)
def test_a_setting_that_a_record_is_too_old_for_has_its_value_of_then(
    changes: dict[str, Any], message: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = experiments(tmp_path)[0]
    whole = replace(one, directory=tmp_path / "whole")
    assert run_grid([whole], no_view)
    Clock(monkeypatch)
    assert not run_grid([one], no_view, time_limit=3)
    with Store.open(tmp_path / "0") as store:
        about = store.about
        for role, name in (("agent", "slope"), ("method", "resample")):
            settings = {key: value for key, value in about[role]["settings"].items() if key != name}
            made = {key: value for key, value in about[role].items() if key != "signed"} | {"settings": settings}
            store.describe(**{role: signed(made, Signer.of(store))})
    if message is None:
        assert run_grid([one], no_view)
        assert observed(tmp_path / "0") == observed(tmp_path / "whole")
    else:
        with pytest.raises(RunError, match=message):
            run_grid([replace(one, **changes)], no_view)


def test_settings_of_the_machine_may_differ(tmp_path: Path) -> None:
    (one, _) = experiments(tmp_path)
    assert run_grid([one], no_view)
    other = replace(one, agent=Climb(device="cuda"), engine="threads")
    assert run_grid([other], no_view)


def test_a_run_that_fails_does_not_keep_the_others_from_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = experiments(tmp_path)
    with pytest.raises(RunError, match=r"1 of 2 runs failed, the others are finished; .*0: .*completed"):
        run_grid([replace(first, agent=Climb(math.nan)), second], no_view)
    assert "0 (1 of 2) failed: " in capsys.readouterr().err
    assert len(History.load(tmp_path / "1")) == 8


def test_every_round_says_how_fast_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Clock(monkeypatch)
    assert run_grid(experiments(tmp_path)[:1], no_view)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    # A round takes one look at the clock: 200 steps in that second, and 3 rounds are left.
    assert lines[0].startswith(f"{tmp_path / '0'} (1 of 1): 200 steps/s in all, ")
    assert lines[0].endswith(" a member, about 0:03 left")
    assert lines[-1].endswith("about 0:00 left")


@dataclass(frozen=True)
class Together:
    """Makes agents that train only if two do at the same time; some members interrupt the grid as they begin."""

    interrupting: tuple[int, ...] = ()

    def __call__(self, seed: int) -> Climber:
        return Meeting(self.interrupting)


MEETING = threading.Barrier(2, timeout=60)
NOTICED = threading.Semaphore(0)
"""Released when the grid has noticed an interrupt: these agents train faster than a busy machine delivers one."""


class Meeting(Climber):
    def __init__(self, interrupting: tuple[int, ...]) -> None:
        super().__init__(1.0)
        self.interrupting = interrupting

    def assigned(self, member: int, round_: int) -> None:
        MEETING.wait()
        if member in self.interrupting and round_ == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            assert NOTICED.acquire(timeout=60)


def test_runs_that_train_at_the_same_time_come_to_the_histories_of_one_at_a_time(tmp_path: Path) -> None:
    assert run_grid(experiments(tmp_path / "alone"), no_view)
    assert run_grid(experiments(tmp_path, agent=Together(), workers=1), no_view, at_a_time=2)
    for seed in "01":
        assert observed(tmp_path / seed) == observed(tmp_path / "alone" / seed)


def test_as_many_runs_train_as_their_members_fit_in_the_order_given() -> None:
    lock, meeting = threading.Lock(), threading.Barrier(2, timeout=60)
    begun: list[str] = []
    loads: dict[str, int] = {}
    load = 0

    def training(name: str, members: int) -> Callable[[], bool]:
        def train() -> bool:
            nonlocal load
            with lock:
                load += members
                begun.append(name)
                loads[name] = load
            if name in "bc":
                meeting.wait()  # Both train at the same time, or this fails.
            with lock:
                load -= members
            return name != "d"

        return train

    runs = [(training(name, members), members) for name, members in (("a", 3), ("b", 2), ("c", 1), ("d", 9), ("e", 1))]
    assert not grid._side_by_side(runs, 3, Limit())
    assert loads | {"b": 0, "c": 0} == {"a": 3, "b": 0, "c": 0, "d": 9, "e": 1}
    assert max(loads["b"], loads["c"]) == 3
    assert ["a", *sorted(begun[1:3]), "d", "e"] == [begun[0], "b", "c", *begun[3:]]
    assert grid._side_by_side(runs[:1], 3, Limit())


def test_runs_at_the_same_time_keep_the_time_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    assert not run_grid(experiments(tmp_path, agent=Together(), workers=1), no_view, time_limit=3, at_a_time=2)
    assert [len(History.load(tmp_path / seed)) for seed in "01"] == [2, 2]


@pytest.mark.parametrize(("interrupting", "ends"), [((0,), []), ((0, 1), [130])])
def test_an_interrupt_stops_all_runs_after_what_is_in_training_and_a_second_one_at_once(
    interrupting: tuple[int, ...],
    ends: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended: list[int] = []

    def say(text: str, **how: Any) -> None:
        print(text, **how)
        if text.startswith("Intervals in training"):
            NOTICED.release()

    monkeypatch.setattr(grid, "os", SimpleNamespace(_exit=ended.append))  # It returns, so the grid says the same again.
    monkeypatch.setattr(grid, "print", say, raising=False)
    one, two = experiments(tmp_path, agent=Together(), workers=1)
    with pytest.raises(KeyboardInterrupt):
        run_grid([replace(one, agent=Together(interrupting)), two], no_view, at_a_time=2)
    assert ended == ends
    assert "Intervals in training end first; again to stop at once" in capsys.readouterr().err
    assert [len(History.load(tmp_path / seed)) for seed in "01"] == [2, 2]  # A round each, and no half one.
    assert run_grid([replace(one, agent=Together(interrupting)), two], no_view, at_a_time=2)
    assert run_grid(experiments(tmp_path / "alone"), no_view)
    for seed in "01":
        assert observed(tmp_path / seed) == observed(tmp_path / "alone" / seed)


@dataclass(frozen=True)
class Interrupting:
    """Makes agents of which the first interrupts the grid in the first round."""

    def __call__(self, seed: int) -> Climber:
        return Interrupted(1.0)


class Interrupted(Climber):
    def assigned(self, member: int, round_: int) -> None:
        if member == round_ == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_an_interrupt_stops_runs_one_at_a_time_too(tmp_path: Path) -> None:
    one, two = experiments(tmp_path, agent=Interrupting(), workers=1)
    with pytest.raises(KeyboardInterrupt):
        run_grid([one, two], no_view)
    assert len(History.load(tmp_path / "0")) == 2
    assert not (tmp_path / "1").exists()


def test_a_run_that_fails_is_told_when_those_beside_it_are_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = experiments(tmp_path)
    with pytest.raises(RunError, match=r"1 of 2 runs failed, the others are finished; .*0: .*completed"):
        run_grid([replace(first, agent=Climb(math.nan)), second], no_view, at_a_time=2)
    assert len(History.load(tmp_path / "1")) == 8
