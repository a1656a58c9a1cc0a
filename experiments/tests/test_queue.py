"""The queue of wanted runs: what is missing, what is run next, and what is refused."""

import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from experiments.tests.ground.climbers import Track, ground
from experiments.tests.ground.test_ground import Here
from experiments.tests.paper.procgen.narrow import narrow
from popbandits import Experiment
from popbandits.run.result import Result
from popbandits_experiments import queue
from popbandits_experiments.ground import deciding, headroom
from popbandits_experiments.ground.grounds import GROUNDS
from popbandits_experiments.ground.records import read
from popbandits_experiments.paper import grid
from popbandits_experiments.paper.commands import procgen as commands
from popbandits_experiments.paper.procgen.task import Task

WANTED = """
[[wanted]]
command = "headroom"
tasks = ["Pendulum"]
spaces = ["wide"]
samples = 4
seeds = "0-1"
rounds = 3
results = "{folder}/headroom"

[[wanted]]
command = "run"
tasks = ["Pendulum"]
methods = ["pbt", "random"]
rounds = [3]
seeds = "0-2"
workers = 1
results = "{folder}/real"
"""


@pytest.fixture
def track(monkeypatch: pytest.MonkeyPatch) -> Track:
    monkeypatch.setattr(deciding, "ProcessPoolExecutor", Here)
    made = Track()
    monkeypatch.setitem(GROUNDS, "Pendulum", ground(made))
    return made


def write(folder: Path, text: str) -> list[str]:
    path = folder / "queue.toml"
    path.write_text(text.format(folder=folder))
    return ["--queue", str(path), "--device", "cpu"]


def test_what_is_missing_is_run_in_order_and_then_nothing_is_missing(
    tmp_path: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    given = write(tmp_path, WANTED)
    assert queue.main(["next", *given, "--seconds", "0"]) == 0
    assert track.built == []
    assert queue.main(["missing", *given]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("10 runs, about ")  # an untrained policy, four usual runs, a longer one, four draws
    assert second.startswith("4 runs, ")
    assert last.startswith("2 of 2 entries are not complete")
    assert queue.main(["next", *given, "--seconds", "300"]) == 0
    said = capsys.readouterr().out
    assert said.index("samples 4") < said.index("methods pbt random")
    assert len(read(tmp_path / "real")) == 4
    assert len(headroom.read(tmp_path / "headroom")) == 10 + headroom.TOP * (headroom.CHOOSING + headroom.JUDGING)
    built = len(track.built)
    assert queue.main(["next", *given]) == 0
    assert len(track.built) == built
    assert queue.main(["missing", *given]) == 0
    assert capsys.readouterr().out.strip().startswith("0 of 2 entries are not complete")


def test_larger_populations_and_longer_runs_are_expected_to_cost_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(queue, "_seconds_of_member", lambda task, folder: 2.0)
    small, large = (
        queue.Populations({"tasks": ["Acrobot"], "seeds": "0-3", "methods": ["pbt"], "members": members,
                           "results": tmp_path})
        for members in (4, 8)
    )  # fmt: skip
    assert (small.missing(), large.missing()) == ((3, 3 * 4 * 2.0), (3, 3 * 8 * 2.0))
    study = queue.Studies({"tasks": ["Acrobot"], "spaces": ["wide"], "samples": 4, "seeds": "0-1", "results": tmp_path})
    # An untrained policy costs nothing, four usual runs and four draws one each, four times the steps four.
    assert study.missing() == (10, (4 + 4 + 4) * 2.0)


def test_trials_of_several_entries_train_together_within_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = queue.read(Path(write(tmp_path, PROCGEN)[1]))
    assert [entry.missing()[0] for entry in entries] == [1, 2]  # PBT's seed 0 is among the stored results.
    assert 60 < entries[0].missing()[1] < 1e6
    calls: list[tuple[list[Experiment], int, float]] = []
    wholes: list[tuple[bool, int, int]] = []

    def train(*given: Any, whole: bool) -> None:
        calls.append(given)
        wholes.append((whole, given[1], len(given[0])))

    monkeypatch.setattr(queue, "train", train)
    queue.work(entries, 30, at_a_time=12)  # Too short for a round.
    assert calls == []
    queue.work(entries, 500, at_a_time=12)
    ((experiments, at_a_time, seconds),) = calls
    folders = [Path(str(one.directory)).relative_to(tmp_path) for one in experiments]
    assert [str(folder) for folder in folders] == [
        "procgen/bigfish/pbt/99",
        "levels_replay/bossfight/drac/0",
        "levels_replay/bossfight/drac/1",
    ]
    assert all(isinstance(one.agent, Task) and one.agent.at_a_time == at_a_time == 12 for one in experiments)
    assert 400 < seconds <= 500
    wholes.clear()
    queue.work(entries, 500, at_a_time=12, whole=True)  # Too short for the population.
    assert wholes == [(True, 12, 2), (True, 6, 2), (True, 3, 2), (True, 1, 2)]


def test_trials_are_trained_and_stored_and_then_nothing_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow(monkeypatch.setattr)
    small = {"environments": 4, "steps": 16, "epochs": 1, "minibatches": 2, "episodes": 1, "test_every": 10}
    monkeypatch.setattr(commands, "QUICK", commands.Preset(2, 128, 128, small))
    monkeypatch.setattr(queue, "RESULTS", tmp_path / "results")
    given = write(tmp_path, TINY)
    assert queue.main(["next", *given, "--at-a-time", "3"]) == 0
    assert capsys.readouterr().err.count(" steps/s in all") == 3
    assert queue.main(["store", *given]) == 0
    kept = [
        tmp_path / "results" / place
        for place in ("runs/bossfight/ppo/0", "runs/bossfight/ppo/1", "tuned/bossfight/pbt/0")
    ]
    assert capsys.readouterr().out.splitlines() == [*map(str, kept), "3 trials stored"]
    assert len(Result(kept[-1]).history) == 2
    shutil.rmtree(tmp_path / "runs")
    assert queue.main(["next", *given, "--only", "run"]) == 0
    assert not (tmp_path / "runs").exists()
    assert queue.main(["missing", *given]) == 0
    assert "0 of 2 entries are not complete" in capsys.readouterr().out
    assert queue.main(["store", *given]) == 0
    assert capsys.readouterr().out == "0 trials stored\n"


def test_stored_trials_are_those_that_the_commands_of_the_queue_would_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command refuses a folder that holds a run of other settings."""
    monkeypatch.setattr(commands, "_device", lambda name: ("cuda", True))
    found = 0
    for entry in queue.read():
        for trial in entry.trials() if isinstance(entry, queue.Trials) else ():
            if trial.stored.exists():
                grid._check(trial.experiment.changed(directory=trial.stored))
                found += 1
    assert found > 30


def test_a_trial_that_shared_its_machine_costs_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = "levels_uniform/bigfish/drac/0"  # One of twelve at a time.
    shutil.copytree(queue.RESULTS / place, tmp_path / place)
    history = Result(tmp_path / place).history
    seconds, steps = (sum(getattr(o, name) or 0 for o in history) for name in ("seconds", "steps"))
    monkeypatch.setattr(queue, "RESULTS", tmp_path)
    queue._seconds_of_step.cache_clear()
    assert queue._seconds_of_step(True) == pytest.approx(seconds / steps / 12)
    assert math.isnan(queue._seconds_of_step(False))
    queue._seconds_of_step.cache_clear()


PROCGEN = """
[[wanted]]
command = "procgen"
game = ["bigfish"]
method = ["pbt"]
seed = [0, 99]
output = "{folder}/procgen"

[[wanted]]
command = "procgen"
game = ["bossfight"]
method = ["drac"]
seed = [0, 1]
levels = "replay"
output = "{folder}/levels_replay"
"""
TINY = """
[[wanted]]
command = "procgen"
quick = true
device = "cpu"
game = ["bossfight"]
method = ["ppo"]
seed = [0, 1]
output = "{folder}/runs"

[[wanted]]
command = "procgen"
quick = true
device = "cpu"
game = ["bossfight"]
method = ["pbt"]
output = "{folder}/tuned"
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[wanted]]\ncommand = "dance"', "command must be one of run, headroom, procgen, got 'dance'"),
        ("[[wanted]]", "command must be one of run, headroom, procgen, got None"),
        ("wanted", "a queue must be a TOML file with tables"),
        (
            '[[wanted]]\ncommand = "run"\ntasks = ["Chess"]',
            "an entry of the queue must suit its command, got tasks Chess",
        ),
        ('[[wanted]]\ncommand = "procgen"\ngame = "chess"', "got game chess: game: unknown name 'chess'"),
        ('[[wanted]]\ncommand = "run"\nspeed = 3', "got speed 3: unrecognized arguments: --speed 3"),
    ],
)
def test_a_queue_that_makes_no_sense_is_refused(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert queue.main(["missing", *write(tmp_path, text)]) == 1
    assert message in capsys.readouterr().err


def test_the_queue_of_the_checkout_can_be_run() -> None:
    entries = queue.read()
    assert {type(entry) for entry in entries} == set(queue.KINDS.values())
    for entry in entries:
        count, seconds = entry.missing()
        assert count >= 0
        assert seconds >= 0 or math.isnan(seconds)
