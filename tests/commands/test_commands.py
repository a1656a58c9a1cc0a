"""Runs from the command line, as a user makes them: in processes of their own, stopped and killed for real."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import popbandits
from popbandits import History, Result, tune
from popbandits.cli import main
from popbandits.errors import AgentError
from popbandits.reports import status as report
from popbandits.storage import Store

TRAIN = '''
import os, time
from pathlib import Path
from popbandits import Experiment, PBT

class Climber:
    """Waits at a gate, if there is one."""

    def __init__(self, seed):
        self.height = seed % 1000 / 1000

    def train(self, config):
        if gate := os.environ.get("GATE"):
            Path(gate, "training").touch()
            while not Path(gate, "open").exists():
                time.sleep(0.01)
        if config["way"] == "off":
            raise ValueError("fell off")
        self.height += config["step"] * (2 if config["way"] == "up" else -1)
        return self.height

    def save(self, directory):
        (directory / "height").write_text(repr(self.height))

    def load(self, directory):
        self.height = float((directory / "height").read_text())

class Falling(Climber):
    def train(self, config):
        raise ValueError("fell off")

class Lucky(Climber):
    """The best score is its first; whoever has trained longest is best when evaluated."""

    def train(self, config):
        self.height += 1
        return -self.height

    def evaluate(self, seed):
        return self.height

class Climbers:
    """Single ones, as a batch."""

    def __init__(self, seeds):
        self.all = [Climber(seed) for seed in seeds]

    def train(self, configs):
        return [climber.train(config) for climber, config in zip(self.all, configs)]

    def copy(self, sources):
        for climber, height in zip(self.all, [self.all[source].height for source in sources]):
            climber.height = height

    def reset(self, member, seed):
        self.all[member] = Climber(seed)

    def save(self, member, directory):
        self.all[member].save(directory)

    def load(self, member, directory):
        self.all[member].load(directory)

space = {"step": (0.0, 1.0), "count": (1, 9), "way": ["up", "down"]}
experiment = Experiment(Climber, space, PBT(), rounds=4)
together = Experiment(Climbers, space, PBT(), rounds=4, engine="batched")
falling = Experiment(Falling, space, PBT(), rounds=4)
lucky = Experiment(Lucky, space, PBT(), rounds=4, evaluations=2)
hidden = Experiment(lambda seed: Climber(seed), space, PBT(), rounds=4)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder, with a file of theirs."""
    (tmp_path / "climb.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("climb", None)
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    for process in STARTED:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    STARTED.clear()


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Begin a command, in a group of processes of its own."""
    source = str(Path(popbandits.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "popbandits", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": source, "PYTHONIOENCODING": "utf-8", **environment},
        start_new_session=True,
    )
    STARTED.append(process)
    return process


def command(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and error of a command."""
    process = start(folder, *arguments)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def waiting(gate: Path, process: subprocess.Popen[str]) -> None:
    """Until an agent stands at its gate."""
    while not (gate / "training").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def state(run: str) -> str:
    return report.status(run).state


@pytest.fixture
def undisturbed(folder: Path) -> History:
    assert main(["run", "climb.py", "-o", "undisturbed"]) == 0
    return History.load("undisturbed")


# Run


def test_an_experiment_runs_is_kept_and_says_where(folder: Path) -> None:
    status, out, err = command(folder, "run", "climb.py", "-o", "runs/first", "--engine", "threads")
    assert status == 0, err
    best = History.load(folder / "runs/first").best
    assert best is not None
    run = folder.resolve() / "runs" / "first"
    checkpoint = run / "checkpoints" / f"member-{best.member}-round-{best.round}"
    assert f"Handed over: {Result(run).choice}.\nIts checkpoint: {checkpoint}\nThe run is in {run}\n" in out
    assert (checkpoint / "height").read_text() == repr(best.score)
    assert "4/4 rounds  best " in err


def test_the_checkpoint_that_is_printed_is_the_one_handed_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command_line in ("run climb.py:lucky -o lucky", "resume lucky --rounds 5"):
        assert main(command_line.split()) == 0
        told, result = capsys.readouterr().out, Result("lucky")
        assert result.best.round == 0 < result.choice.observation.round
        assert f"Best score {result.best.score:.4g} (member {result.best.member}, round 0), mean " in told
        assert f"Handed over: {result.choice}.\nIts checkpoint: {result.checkpoint}\n" in told
        assert result.checkpoint.is_dir()


def test_every_field_of_an_experiment_can_be_given_as_an_option(folder: Path) -> None:
    options = (
        "--population 3 --rounds 2 --seed 5 --mode min --method pb2-fuse/all --engine threads --workers 2 --keep all "
        "--round-timeout 50 --max-failures 7 --quantile 0.5 --asynchronous --initial-score 0.5 --start defaults "
        "--directory there --name mine --task climbing"
    )
    assert main(["run", "climb:experiment", *options.split()]) == 0
    history = History.load("there")
    assert (len(history), history.size, history.rounds, history.mode) == (6, 3, 2, "min")
    assert history[0].score_before == 0.5
    first = history.find((0, 0))
    assert first is not None
    assert (first.config, first.decision) == ({"step": 0.5, "count": 5, "way": "up"}, {"start": "defaults"})
    assert len(list(Path("there/checkpoints").iterdir())) == 6
    with Store.open("there", readonly=True) as store:
        about = store.about
    expected: dict[str, Any] = {
        "seed": 5,
        "engine": "threads",
        "workers": 2,
        "keep": "all",
        "round_timeout": 50.0,
        "max_failures": 7,
        "quantile": 0.5,
        "explore": "all",
        "synchronous": False,
        "name": "mine",
        "task": "climbing",
    }
    assert {name: about[name] for name in expected} == expected
    assert about["method"]["name"] == "pb2-fuse"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--mode mox", "mode must be 'max' or 'min', got 'mox'"),
        ("--engine thread", "engine must be one of in-process, threads, processes, ray, slurm, batched, got 'thread'"),
        ("--method pb3", "method must be an explorer or one of random, pbt, near-pbt, pb2-rand,"),
        ("--population 0", "population must be a whole number from 1 to 1,000,000, got 0"),
        ("--quantile 0.9", "quantile must be above 0 and at most 0.5, got 0.9"),
        (
            "--start nowhere",
            "start must be a configuration or a list of them, 'defaults', 'random', a History, or the folder of a run",
        ),
        ("--keep some", "keep must be a whole number of at least 0, or 'all', got 'some'"),
        ("--round-timeout 5", "the in-process engine cannot end an agent that hangs"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_written(
    option: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "climb.py", "-o", "there", *option.split()])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
    assert not Path("there").exists()


def test_a_dry_run_prints_what_would_run_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.rglob("*.*"))
    assert (
        main(["run", "climb.py", "--dry-run", "--engine", "processes", "--round-timeout", "90", "--rounds", "7"]) == 0
    )
    out, err = capsys.readouterr()
    lines = dict(line.strip().split("  ", 1) for line in out.splitlines() if line.startswith("  "))
    said = {name: value.strip() for name, value in lines.items()}
    assert said["agent"] == "Climber"
    assert said["method"].startswith("PBT(")
    assert said["population"] == "4 members, replaced members explore, in rounds"
    assert said["selection"] == "Truncation(quantile=0.25)"
    assert said["start"] == "random configurations; if you have settings that work, give them as start="
    assert said["budget"] == "7 rounds, 28 intervals of training, at most 1:30 each"
    assert said["engine"] == "processes, 2 at a time"
    assert said["folder"] == "a new one in runs"
    assert said["step"] == "float [0.0, 1.0]"
    assert said["count"] == "integer [1, 9]"
    assert said["way"] == "one of 'up', 'down'"
    assert err == ""
    assert [path for path in sorted(folder.rglob("*.*")) if path.suffix != ".pyc"] == before


def test_a_dry_run_finds_out_that_the_folder_is_taken(undisturbed: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "climb.py", "--dry-run", "-o", "undisturbed"]) == 1
    assert "already holds a run; give another folder with -o, or resume it: popbandits resume undisturbed" in (
        capsys.readouterr().out
    )
    assert main(["run", "climb.py", "-o", "undisturbed"]) == 1
    assert "or resume with: popbandits resume undisturbed\n" in capsys.readouterr().err
    assert History.load("undisturbed") == undisturbed


def test_a_dry_run_takes_the_folder_of_a_run_that_ended_before_its_first_interval(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_nothing: Any = lambda seed: None  # noqa: E731
    with pytest.raises(AgentError):
        tune(make_nothing, {"x": (0.0, 1.0)}, directory=folder / "refused", progress=False)
    assert main(["run", "climb.py", "--dry-run", "-o", "refused"]) == 0


def test_a_range_that_looks_like_one_of_floats_is_remarked_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("whole.py").write_text("from climb import *\nexperiment = Experiment(Climber, {**space, 'step': (0, 1)})")
    words = "Warning: step: (0, 1) means the whole numbers 0, 1; write (0.0, 1.0) for all numbers between\n"
    assert main(["run", "whole.py", "--dry-run"]) == 0
    assert words in capsys.readouterr().out
    assert main(["check", "whole.py"]) == 0
    assert words in capsys.readouterr().out
    assert main(["run", "whole.py", "--rounds", "1", "-o", "whole"]) == 0
    assert words in capsys.readouterr().err
    assert main(["run", "climb.py", "--rounds", "1", "-o", "floats"]) == 0
    assert "Warning" not in capsys.readouterr().err


def test_a_space_with_nothing_to_tune_is_remarked_on_unless_one_trains_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fixed.py").write_text("from climb import *\nexperiment = Experiment(Climber, {'step': 0.1, 'way': 'up'})")
    assert main(["run", "fixed.py", "--rounds", "1", "-o", "four"]) == 0
    words = "Warning: the space has nothing to tune, so 4 members train with the same values; write a range as"
    assert words in capsys.readouterr().err
    assert main(["run", "fixed.py", "--rounds", "1", "--population", "1", "-o", "one"]) == 0
    assert "Warning" not in capsys.readouterr().err


def test_a_run_begins_with_what_won_in_a_past_one(undisturbed: History, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "climb.py", "--start", "undisturbed", "--population", "2", "--rounds", "1", "-o", "there"]
    assert main([*arguments, "--dry-run"]) == 0
    assert "1 member from undisturbed, 1 random\n" in capsys.readouterr().out
    assert main([*arguments, "--dry-run", "--method", "near-pbt", "--control"]) == 0
    assert "1 member from undisturbed, 1 around it; member 0 keeps it to the end\n" in capsys.readouterr().out
    assert main(arguments) == 0
    winner = undisturbed.lineage()[-1]
    first = History.load("there").find((0, 0))
    assert first is not None
    assert (first.config, first.decision) == (winner.config, {"start": "undisturbed", "from": list(winner.key)})


def test_an_agent_that_only_fails_ends_the_run_with_its_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "climb.py:falling", "-o", "there"]) == 1
    err = capsys.readouterr().err
    assert "popbandits: a run ends when no interval has completed yet; the last failure: ValueError: fell off" in err
    assert "Traceback" in err
    assert "raise ValueError" in err


def test_a_batched_experiment_runs_like_any_other(
    folder: Path, undisturbed: History, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "climb.py:together", "--dry-run"]) == 0
    assert "batched, 4 at a time" in capsys.readouterr().out
    assert main(["run", "climb.py:together", "-o", "there", "--rounds", "3"]) == 0
    assert main(["resume", "there", "--rounds", "4"]) == 0
    assert History.load("there") == undisturbed
    assert "4/4 rounds  best " in capsys.readouterr().err
    assert main(["status", "there"]) == 0
    assert "finished" in capsys.readouterr().out
    assert main(["replay", "there"]) == 0
    assert ": exactly as recorded." in capsys.readouterr().out
    assert main(["report", "there", "-o", "there.html"]) == 0
    assert "PBT trained 4 members for 4 of 4 rounds" in Path("there.html").read_text()


def test_a_batched_run_is_not_resumed_with_an_engine_for_single_agents(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "climb.py:together", "-o", "other", "--rounds", "2"]) == 0
    with pytest.raises(SystemExit, match="2"):
        main(["resume", "other", "--rounds", "3", "--engine", "threads"])
    assert "a run whose agent builds all members from a list of seeds" in capsys.readouterr().err


# Stop, kill, resume


# The signal comes to the driver's thread, as in-process; tests/views/test_stopping.py stops runs with threads.
@pytest.mark.parametrize("engine", ["in-process", pytest.param("threads", marks=pytest.mark.slow), "processes"])
def test_ctrl_c_lets_what_is_in_training_end_and_the_run_resumes_as_if_nothing_had_been(
    engine: str, folder: Path, undisturbed: History
) -> None:
    gate = folder / "gate"
    gate.mkdir()
    run = start(folder, "run", "climb.py", "-o", "there", "--engine", engine, GATE=str(gate))
    waiting(gate, run)
    os.killpg(run.pid, signal.SIGINT)  # As a terminal does: everybody in the group gets it.
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("Stopping after the intervals in training"):
            break
    assert state("there") == "running"
    (gate / "open").touch()
    err = run.communicate(timeout=300)[1]
    assert run.returncode == 130
    assert err.endswith(f"Stopped. To resume: popbandits resume {folder / 'there'}\n")
    assert "Traceback" not in err
    stopped = History.load("there")
    assert 0 < len(stopped) < len(undisturbed)
    assert state("there") == "stopped"
    assert main(["resume", "there", "--engine", "in-process"]) == 0
    assert History.load("there") == undisturbed
    assert state("there") == "finished"


def test_a_second_ctrl_c_stops_at_once(folder: Path, undisturbed: History) -> None:
    gate = folder / "gate"
    gate.mkdir()
    run = start(folder, "run", "climb.py", "-o", "there", GATE=str(gate))
    waiting(gate, run)
    os.killpg(run.pid, signal.SIGINT)
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("Stopping after the intervals in training"):
            break
    os.killpg(run.pid, signal.SIGINT)
    err = run.communicate(timeout=300)[1]
    assert run.returncode == 130
    assert err.endswith(f"Stopped. To resume: popbandits resume {folder / 'there'}\npopbandits: stopped\n")
    assert main(["resume", "there"]) == 0
    assert History.load("there") == undisturbed


def test_a_killed_run_is_called_killed_and_resumes(folder: Path, undisturbed: History) -> None:
    gate = folder / "gate"
    gate.mkdir()
    run = start(folder, "run", "climb.py", "-o", "there", GATE=str(gate))
    waiting(gate, run)
    assert state("there") == "running"
    run.kill()
    run.communicate(timeout=300)
    assert state("there") == "killed"
    assert main(["resume", "there", "--engine", "threads"]) == 0
    assert History.load("there") == undisturbed


def test_a_finished_run_can_be_given_more_rounds(undisturbed: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", "undisturbed", "--rounds", "6"]) == 0
    assert "6/6 rounds" in capsys.readouterr().err
    history = History.load("undisturbed")
    assert history[: len(undisturbed)] == list(undisturbed)
    assert len(history) == 24


def test_a_run_is_not_resumed_with_fewer_rounds_than_it_has_done(
    undisturbed: History, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["resume", "undisturbed", "--rounds", "3"])
    said = "popbandits resume: rounds must be at least the 4 that the run has done, got 3\n"
    assert capsys.readouterr().err == f"{said}See: popbandits resume --help\n"
    assert main(["resume", "undisturbed", "--rounds", "4"]) == 0


def test_a_run_whose_agent_cannot_be_found_says_how_to_give_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "climb.py:hidden", "-o", "there", "--rounds", "1"]) == 0
    assert main(["resume", "there", "--rounds", "2"]) == 1
    err = capsys.readouterr().err
    assert "does not say where that can be imported from; give it with agent=, or with --agent file.py:make" in err
    Path("climb.py").rename("moved.py")
    with Store.open("there") as store:
        store.describe(agent={"import": "climb:Climber", "settings": {}, "root": str(folder)})
    status, _, err = command(folder, "replay", "there", "--trust")
    assert status == 1
    assert "there is not where it was: No module named 'climb'; give it with agent=, or with --agent" in err
    status, _, err = command(folder, "resume", "there", "--rounds", "2", "--agent", "moved.py")  # its Experiment's
    assert status == 0, err


def test_what_is_not_a_run_cannot_be_resumed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(folder)]) == 1
    assert capsys.readouterr().err == (
        f"popbandits: {folder} holds no run: it has no run.sqlite; give the folder of a run\n"
    )


@pytest.mark.parametrize("command", ["resume", "replay"])
def test_the_parent_folder_of_runs_is_answered_with_their_names(
    command: str, undisturbed: History, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(6):
        History(undisturbed.space).save(f"many/run-{number}")
    assert main([command, "many"]) == 1
    here = Path("many").absolute()
    names = ", ".join(str(here / f"run-{number}") for number in range(5))
    out, err = capsys.readouterr()
    assert err == f"popbandits: {here} holds no run: folders in it do; give one of {names} and 1 more\n"
    assert out == ""  # No table begins.


# Look


def test_status_shows_several_runs_and_what_is_none(undisturbed: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "climb.py", "-o", "other", "--rounds", "2"]) == 0
    capsys.readouterr()
    assert main(["status", "undisturbed", "other", "nothing"]) == 1
    out, err = capsys.readouterr()
    assert [line.split()[:4] for line in out.splitlines()] == [
        ["run", "state", "method", "rounds"],
        ["undisturbed", "finished", "PBT", "4/4"],
        ["other", "finished", "PBT", "2/2"],
    ]
    assert err == "popbandits: nothing holds no run: there is no such folder; give the folder of a run\n"
    assert main(["status", ".", "other"]) == 0  # A folder of runs stands for all of them, each once.
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["run", "other", "undisturbed"]


def test_replay_prints_what_was_recorded_and_what_came_of_it_now(
    undisturbed: History, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["replay", "undisturbed", "--save", "kept"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["member,", "round", "recorded", "replayed"]
    assert len(lines) == 1 + len(undisturbed.lineage()) + 3
    assert all(line.split()[-1] == line.split()[-2] for line in lines[1:5])
    assert undisturbed.best is not None
    assert f"Score {undisturbed.best.score!r} with seed " in lines[-2]
    assert lines[-2].endswith(": exactly as recorded.")
    assert Path("kept/height").read_text() == repr(undisturbed.best.score)


def test_replay_with_other_seeds_shows_the_spread(undisturbed: History, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["replay", "undisturbed", "--seeds", "3", "--agent", "climb:Climber"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["seed 0", "seed 1", "seed 2"]
    assert lines[-2].startswith("Mean ")
    assert ", standard deviation 0.001, from " in lines[-2]  # seeds 0, 1 and 2 begin a thousandth apart
    assert lines[-1].startswith("The run recorded ")
    assert main(["replay", "undisturbed", "--seed", "2"]) == 0
    assert ": the run recorded " in capsys.readouterr().out


def test_export_writes_the_same_rows_in_every_format(undisturbed: History, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("csv", "json", "parquet"):
        assert main(["export", "undisturbed", f"--{kind}", "-o", f"table.{kind}"]) == 0
        assert f"Written: table.{kind} (16 rows)" in capsys.readouterr().out
    by_csv = list(csv.DictReader(io.StringIO(Path("table.csv").read_text())))
    by_json = json.loads(Path("table.json").read_text())
    by_parquet = pyarrow.parquet.read_table("table.parquet").to_pylist()
    scores = [observation.score for observation in undisturbed]
    assert [float(row["score"]) for row in by_csv] == [row["score"] for row in by_json] == scores
    assert [row["score"] for row in by_parquet] == scores
    assert [row["config.way"] for row in by_parquet] == [o.config["way"] for o in undisturbed]
    assert not list(Path.cwd().glob("*.part"))


def test_export_goes_to_the_standard_output_and_stops_when_nobody_reads(
    undisturbed: History, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    assert main(["export", "undisturbed", "--csv"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 17
    process = start(Path.cwd(), "export", "undisturbed", "--csv")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=300) == 1
    process.stderr.close()


def test_an_export_at_a_terminal_goes_to_a_file_in_the_folder_of_the_run(
    undisturbed: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    Path("precious").write_text("kept")
    Path("undisturbed/export.csv.part").symlink_to(Path("precious").resolve())  # as a sender could have put there
    for kind in ("csv", "json", "parquet"):
        assert main(["export", "undisturbed", f"--{kind}"]) == 0
        assert capsys.readouterr().out == f"Written: undisturbed/export.{kind} (16 rows)\n"
    assert len(Path("undisturbed/export.csv").read_text().splitlines()) == 17
    assert Path("precious").read_text() == "kept"
    assert main(["export", "undisturbed", "--csv", "-o", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 17
    assert main(["export", "nowhere", "--csv"]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_an_export_that_cannot_be_written_says_why(undisturbed: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "undisturbed", "--csv", "-o", "no/such/folder.csv"]) == 1
    assert "cannot write to no/such/folder.csv: No such file or directory; give another" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["climb.py"], ["climb.py:Climber", "--space", "climb.py:space"]])
def test_check_tries_an_agent(arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == 0
    assert "a checkpoint holds everything that training resumes from" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["climb.py:together"], ["climb.py:Climbers", "--space", "climb.py:space", "--batched"]]
)
def test_check_tries_a_batch(arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == 0
    assert "ok        a member trains alike at any index" in capsys.readouterr().out


def test_check_projects_the_run_that_the_experiment_plans(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("many.py").write_text("from climb import *\nexperiment = Experiment(Climber, space, population=7, rounds=30)")
    assert main(["check", "many.py"]) == 0
    assert "7 members x 30 rounds take" in capsys.readouterr().out


def test_check_fails_for_an_agent_that_does(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "climb.py:falling"]) == 1
    assert "fell off" in capsys.readouterr().out
