"""Reasons to stop: a run ends as after a first Ctrl-C, with every engine, and can be resumed."""

from pathlib import Path
from typing import Any

import pytest

from popbandits import (
    ArgumentError,
    History,
    Observation,
    Population,
    StopAfter,
    StopAtScore,
    StopOnPlateau,
    StopWhen,
    View,
    resume,
    tune,
)
from popbandits.cli import main
from popbandits.commands.registry import STOPPED
from popbandits.storage import Store
from tests.engines.agents import Walker, space
from tests.engines.batches import Walkers
from tests.trackers.runs import SETTINGS, begin_or_resume

ENGINES: dict[str, dict[str, Any]] = {
    "in-process": {},
    "threads": {"engine": "threads"},
    "processes": {"engine": "processes", "workers": 2},
    "batched": {"agent": Walkers, "engine": "batched"},
}


def six(history: History) -> bool:
    return len(history) >= 6


def last_event(directory: Path) -> tuple[str, str]:
    with Store.open(directory, readonly=True) as store:
        event = list(store.events())[-1]
    return event.kind, event.text


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_is_stopped_and_resumed_with_every_engine(engine: str, synchronous: bool, tmp_path: Path) -> None:
    made: dict[str, Any] = {"agent": Walker, "space": space()} | SETTINGS | ENGINES[engine]
    result = tune(**made, synchronous=synchronous, directory=tmp_path / "run", callbacks=[StopWhen(six)])
    assert not result.done
    # Members that trained at the moment have ended.
    assert len(result.history) == 6 if synchronous else 6 <= len(result.history) <= 8
    assert last_event(tmp_path / "run") == ("stopped", "six says so; it can be resumed")
    resumed = resume(tmp_path / "run", progress=False)
    assert resumed.done
    if synchronous:
        whole = tune(**made, directory=tmp_path / "whole")
        assert resumed.history == whole.history


def test_a_run_with_the_same_reason_stops_again_before_it_trains(tmp_path: Path) -> None:
    begin_or_resume(tmp_path / "run", [StopWhen(six)])
    assert len(resume(tmp_path / "run", callbacks=[StopWhen(six)], progress=False).history) == 6


def test_a_reason_can_be_given_in_words(tmp_path: Path) -> None:
    begin_or_resume(tmp_path / "run", [StopWhen(lambda history: six(history) and "six are enough")])
    assert last_event(tmp_path / "run") == ("stopped", "six are enough; it can be resumed")


def test_the_time_is_over_when_nothing_new_begins(tmp_path: Path) -> None:
    class Clock(View):
        """Lets the time pass at an observation."""

        def __init__(self, stop: StopAfter):
            self.stop_after = stop

        def told(self, observation: Observation) -> None:
            if observation.key == (1, 1):
                self.stop_after._end = 0.0

    limit = StopAfter(3600)
    assert len(begin_or_resume(tmp_path / "run", [limit, Clock(limit)])) == 6
    assert last_event(tmp_path / "run") == ("stopped", "3600 seconds are over; it can be resumed")
    assert len(begin_or_resume(tmp_path / "run", [limit])) == 12  # It has all of it again.
    assert len(begin_or_resume(tmp_path / "short", [StopAfter(1e-9)])) == 0


class Timed(Walker):
    """Takes ten seconds of a clock that nothing else moves, and twice as long with a third round."""

    now = 0.0
    rounds = 0

    def assigned(self, member: int, round_: int) -> None:
        self.rounds = round_

    def train(self, config: dict[str, Any]) -> Any:
        Timed.now += 20.0 if self.rounds >= 2 else 10.0
        return super().train(config)


@pytest.mark.parametrize(
    ("seconds", "synchronous", "intervals", "said"),
    [
        # A round of three members takes 30 seconds, from the third on 60.
        (65, True, 6, "the next intervals take about 30 s, and 5.0 s are left"),
        (60, True, 6, "60 seconds are over"),
        (91, True, 9, "91 seconds are over"),  # It could not know that the third round takes longer.
        (150, True, 9, "the next intervals take about 1:00, and 30 s are left"),
        # Each waits for two others and trains: 30 seconds. Those in the queue end in time.
        (65, False, 6, "the next intervals take about 30 s, and 25 s are left"),
    ],
)
def test_nothing_begins_that_would_end_after_the_time(
    seconds: float, synchronous: bool, intervals: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Timed, "now", 0.0)
    limit = StopAfter(seconds)
    limit._now = lambda: Timed.now
    made: dict[str, Any] = SETTINGS | {"population": 3, "rounds": 9, "synchronous": synchronous}
    result = tune(Timed, space(), directory=tmp_path / "run", callbacks=[limit], **made)
    assert len(result.history) == intervals
    assert last_event(tmp_path / "run") == ("stopped", f"{said}; it can be resumed")
    resumed = resume(tmp_path / "run", callbacks=[limit], progress=False)
    assert len(resumed.history) > intervals  # It has all of the time again, and learns anew how long a round takes.


@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_run_stops_at_a_score_that_is_good_enough(mode: Any, tmp_path: Path) -> None:
    whole = begin_or_resume(tmp_path / "whole", [], mode=mode)
    rounds = [[o.score for o in whole if o.round == round_] for round_ in range(4)]
    best = max if mode == "max" else min
    wanted = best(rounds[1])
    first = next(number for number, scores in enumerate(rounds) if whole.sign * (best(scores) - wanted) >= 0)
    history = begin_or_resume(tmp_path / "run", [StopAtScore(wanted)], mode=mode)
    assert len(history) == 3 * (first + 1)
    assert "is as good as asked for" in last_event(tmp_path / "run")[1]
    unreachable = wanted + whole.sign * 1e6
    assert len(begin_or_resume(tmp_path / "other", [StopAtScore(unreachable)], mode=mode)) == 12


def watch(stop: StopOnPlateau, rounds: list[list[float]], mode: Any = "max", resumed: bool = False) -> list[bool]:
    """Whether it would stop after each round; nan for an interval that failed."""
    seen: list[Observation] = []
    said = []
    population = Population({"x": (0.0, 1.0)}, size=2, rounds=None, mode=mode)
    stop.opened(population, Path())
    for number, scores in enumerate(rounds):
        for member, score in reversed(list(enumerate(scores))):
            parent = None if number == 0 else (member, number - 1)
            status: Any = "completed" if score == score else "failed"
            o = Observation(member, number, {"x": 0.5}, parent=parent, score=score, status=status)
            seen.append(o)
            stop.told(o)
            if member:  # The round is incomplete.
                assert bool(stop.stop()) == (said[-1] if said else False)
        if resumed:
            again = StopOnPlateau(stop.rounds, stop.min_change)
            again.opened(Population({"x": (0.0, 1.0)}, size=2, rounds=None, mode=mode, history=seen), Path())
            assert again.stop() == stop.stop()
        said.append(bool(stop.stop()))
    return said


NAN = float("nan")


@pytest.mark.parametrize(
    ("rounds", "min_change", "mode", "said"),
    [
        ([[1, 0], [2, 0], [2, 1], [2, 2], [3, 0]], 0.0, "max", [False, False, False, True, False]),
        ([[1, 0], [2, 0], [3, 0], [4, 0]], 2.0, "max", [False, False, True, True]),
        ([[1, 0], [2, 0], [3, 0], [4, 0]], 1.9, "max", [False, False, False, False]),
        ([[3, 4], [2, 4], [2, 4], [3, 4]], 0.0, "min", [False, False, False, True]),
        ([[NAN, NAN], [NAN, NAN], [NAN, 1], [NAN, NAN], [0, 0]], 0.0, "max", [False, False, False, False, True]),
    ],
)
def test_a_plateau_is_some_whole_rounds_without_progress(
    rounds: list[list[float]], min_change: float, mode: Any, said: list[bool]
) -> None:
    assert watch(StopOnPlateau(2, min_change), rounds, mode, resumed=NAN not in rounds[0]) == said


def test_a_run_that_makes_no_progress_stops(tmp_path: Path) -> None:
    history = begin_or_resume(tmp_path / "run", [StopOnPlateau(1, min_change=1e6)])
    assert len(history) == 6
    assert last_event(tmp_path / "run") == ("stopped", "no progress in 1 rounds; it can be resumed")


def test_the_exit_status_says_that_a_run_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stopped_early.py").write_text(
        "from popbandits import Experiment, StopWhen\n"
        "from tests.engines.agents import Walker, space\n"
        "stop = StopWhen(lambda history: len(history) >= 6 and 'six are enough')\n"
        "experiment = Experiment(Walker, space(), population=3, rounds=4, callbacks=[stop])\n"
    )
    assert main(["run", "stopped_early.py", "-o", "there"]) == STOPPED
    assert "Stopping after the intervals in training: six are enough." in capsys.readouterr().err
    assert main(["resume", "there"]) in (0, None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StopAfter(0), "seconds must be above 0 seconds, got 0"),
        (lambda: StopAtScore(NAN), "score must be .*, got nan"),
        (lambda: StopOnPlateau(0), "rounds must be a whole number of at least 1, got 0"),
        (lambda: StopOnPlateau(2, -1.0), "min_change must be at least 0, got -1.0"),
        (lambda: StopWhen(0.9), "function must be callable: it takes the history, got 0.9"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()
