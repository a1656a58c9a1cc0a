"""SLURM as an engine: the same runs as in process, by submitit's local executor and by SLURM itself."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, History, resume, tune
from popbandits.commands.registry import STOPPED
from popbandits.engines import slurm_engine
from popbandits.errors import AgentError, ArgumentError, RunError
from popbandits.run import Result
from popbandits.storage.store import Store
from tests.engines.agents import Deaf, Walker, space
from tests.engines.test_engines import Vandal
from tests.processes import until
from tests.slurm.members import WAYS, Held, Troubled, held_processes

pytestmark = pytest.mark.integration


def tuned(agent: Any, directory: Path, cluster: str, **settings: Any) -> Result:
    settings = {"method": PBT(), "rounds": 2, "progress": False} | settings
    return tune(agent, space(), directory=directory, engine="slurm", slurm={"cluster": cluster}, **settings)


def in_process(directory: Path, **settings: Any) -> History:
    """The history that there should be."""
    return tune(Walker, space(), PBT(), directory=directory, progress=False, **settings).history


def said(directory: Path, *kinds: str) -> dict[tuple[int, int], str]:
    with Store.open(directory, readonly=True) as store:
        return {(e.member, e.round): e.text for e in store.events() if e.kind in kinds}


def left_behind(directory: Path) -> list[str]:
    """Files that are neither logs nor checkpoints that are needed."""
    logs = [path.name for path in (directory / "slurm").iterdir() if not path.name.endswith("_log.out")]
    return logs + [path.name for path in (directory / "checkpoints").iterdir() if not path.name.startswith("member-")]


def test_slurm_makes_the_history_that_is_made_in_process(cluster: str, tmp_path: Path) -> None:
    expected = in_process(tmp_path / "in-process", rounds=3)
    result = tuned(Walker, tmp_path / "run", cluster, rounds=3, workers=3)
    assert result.done
    assert result.history == expected
    assert left_behind(tmp_path / "run") == []


def test_each_fault_is_its_interval_s_own(cluster: str, tmp_path: Path) -> None:
    result = tuned(Troubled, tmp_path, cluster, population=6, rounds=3, round_timeout=4.0)
    assert result.done
    assert sorted(o.key for o in result.history) == [(m, r) for m in range(6) for r in range(3)]
    assert {o.key for o in result.history if o.failed} == set(WAYS)
    assert said(tmp_path, "raised").keys() == {(0, 1), (4, 1)}
    assert said(tmp_path, "raised")[4, 1] == "KeyboardInterrupt"
    assert said(tmp_path, "score") == {(1, 1): "the score must be finite, got nan"}
    assert said(tmp_path, "timeout") == {(2, 1): "did not end within 4 seconds"}
    assert list(said(tmp_path, "died")) == [(3, 1)]
    assert said(tmp_path, "died")[3, 1].endswith(" ended as FAILED, without a result")
    assert left_behind(tmp_path) == []


def test_a_spoilt_checkpoint_is_found_before_training_on_it(tmp_path: Path) -> None:
    result = tuned(Walker, tmp_path, "local", population=2, progress=Vandal(tmp_path, [(1, 0)], "missing"))
    assert {o.parent for o in result.history if o.status == "lost"} == {(1, 0)}


def test_a_run_stops_when_an_agent_trains_with_other_hyperparameters(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"must train with the hyperparameters it is given.*expected"):
        tuned(Deaf, tmp_path, "local", explore="all", population=2)
    assert left_behind(tmp_path) == []


def test_a_job_that_cannot_start_is_no_fault_of_its_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = 'import os, sys\n\nif "submitit.core._submit" in sys.orig_argv:\n    os._exit(1)\n'
    (tmp_path / "sitecustomize.py").write_text(ends)  # So every job ends before it begins.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(RunError, match=r"SLURM jobs must be able to start, got 5 in a row that ended before"):
        tuned(Walker, tmp_path / "run", "local", population=2)
    assert len(History.load(tmp_path / "run")) == 0


def test_a_job_that_takes_too_long_has_failed(cluster: str, tmp_path: Path) -> None:
    options = {"cluster": cluster, "timeout_min": 0.15 if cluster == "local" else 1}
    settings: dict[str, Any] = {"rounds": 2, "population": 1, "explore": "all", "progress": False}
    result = tune(
        partial(Held, folder=tmp_path), space(), engine="slurm", slurm=options, directory=tmp_path / "run", **settings
    )
    (text,) = said(result.directory, "timeout").values()
    assert text.endswith(f"was ended at its time limit of {options['timeout_min']} minutes (timeout_min)")


def test_what_an_agent_prints_is_in_the_log_of_its_job(tmp_path: Path) -> None:
    def make(seed: int) -> Walker:  # A local function can be sent too.
        print("made with", seed)
        return Walker(seed)

    tuned(make, tmp_path, "local", population=1, rounds=1, explore="all")
    (log,) = (tmp_path / "slurm").iterdir()
    assert "made with" in log.read_text()


def test_an_agent_that_jobs_cannot_import_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "only_here.py"
    module.write_text("from tests.engines.agents import Walker\n\nclass Agent(Walker): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    agent = import_module(module.stem).Agent
    module.unlink()  # As if nodes did not see it.
    with pytest.raises(RunError, match=r"(?s)import what the agent needs, got: ModuleNotFoundError.*PYTHONPATH"):
        tuned(agent, tmp_path / "run", "local", population=1, explore="all")


def test_an_agent_that_cannot_be_pickled_is_refused(tmp_path: Path) -> None:
    lock = threading.Lock()
    with pytest.raises(
        ArgumentError, match=r"sends the agent's maker .*, which cannot be pickled \(TypeError: .*'_thread"
    ):
        tuned(lambda seed: lock, tmp_path / "run", "local")
    assert list(tmp_path.iterdir()) == []


# Drivers that are killed

TRAIN = """
from functools import partial
from importlib import import_module
from popbandits import PBT, Experiment
from tests.engines.agents import space
from tests.slurm.members import Held

experiment = Experiment(partial(Held, folder="."), space(), PBT(), rounds=3, population=3)
"""


@pytest.fixture
def driver(cluster: str, tmp_path: Path) -> Iterator[Any]:
    """A run that was started from the command line, in a session of its own, once its second round is in training."""
    (tmp_path / "train.py").write_text(TRAIN)
    command = [sys.executable, "-m", "popbandits", "run", "train.py", "-o", "run", "--engine", "slurm"]
    with (tmp_path / "printed").open("w") as out:
        process = subprocess.Popen(
            [*command, "--slurm", f"cluster={cluster},timeout_min=5"],
            cwd=tmp_path,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        until(lambda: len(held_processes(tmp_path)) == 3 or process.poll() is not None)
        assert process.poll() is None, (tmp_path / "printed").read_text()
        yield process
    finally:
        (tmp_path / "go").touch()  # Whoever is left goes on, and ends.
        process.kill()
        process.wait()
        until(lambda: not held_processes(tmp_path))


def resumed(folder: Path) -> None:
    command = [sys.executable, "-m", "popbandits", "resume", "run"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)


def expected(folder: Path) -> History:
    return in_process(folder / "in-process", rounds=3, population=3)


def test_a_driver_that_was_killed_resumes_and_its_jobs_do_no_harm(
    driver: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    orphans = held_processes(tmp_path)
    driver.kill()
    driver.wait()
    assert held_processes(tmp_path) == orphans, "jobs outlive their driver"
    process = subprocess.Popen([sys.executable, "-m", "popbandits", "resume", "run"], cwd=tmp_path)
    until(lambda: not set(orphans) & set(held_processes(tmp_path)))  # They end before they may go on.
    (tmp_path / "go").touch()
    assert process.wait(300) == 0
    assert History.load(tmp_path / "run") == expected(tmp_path)
    assert left_behind(tmp_path / "run") == []


def test_ctrl_c_lets_jobs_end_first(driver: subprocess.Popen[bytes], tmp_path: Path) -> None:
    os.killpg(driver.pid, signal.SIGINT)  # As a terminal does: to the driver and all of its children.
    until(lambda: "Stopping after the intervals in training" in (tmp_path / "printed").read_text())
    assert len(held_processes(tmp_path)) == 3
    (tmp_path / "go").touch()
    assert driver.wait(300) == STOPPED
    assert len(History.load(tmp_path / "run")) == 6
    resumed(tmp_path)
    assert History.load(tmp_path / "run") == expected(tmp_path)


def test_a_run_that_is_stopped_at_once_cancels_its_jobs(driver: subprocess.Popen[bytes], tmp_path: Path) -> None:
    for _ in range(2):
        driver.send_signal(signal.SIGTERM)
        until(lambda: "Stopping after the intervals in training" in (tmp_path / "printed").read_text())
    driver.wait(300)
    until(lambda: not held_processes(tmp_path))
    assert len(History.load(tmp_path / "run")) == 3
    assert left_behind(tmp_path / "run") == []


# What only SLURM can do

on_slurm = pytest.mark.parametrize("cluster", ["slurm"], indirect=True)


def while_held(folder: Path, work: Any) -> None:
    """Do something while all agents are held, then let them go on."""
    try:
        until(lambda: len(held_processes(folder)) == 3)
        work()
    finally:
        (folder / "go").touch()


@on_slurm
def test_a_preempted_job_is_submitted_again(cluster: str, tmp_path: Path) -> None:
    def preempt() -> None:
        before = held_processes(tmp_path)
        wrapped = ["sbatch", "--partition=high", "--exclusive", "--output=/dev/null", "--wait", "--wrap", "true"]
        subprocess.run(wrapped, check=True, capture_output=True)
        until(lambda: not set(before) & set(held_processes(tmp_path)))

    thread = threading.Thread(target=while_held, args=(tmp_path, preempt))
    thread.start()
    result = tuned(partial(Held, folder=tmp_path), tmp_path / "run", cluster, rounds=3, population=3)
    thread.join()
    assert result.history == expected(tmp_path)
    assert said(tmp_path / "run", "died", "timeout", "raised") == {}


@on_slurm
def test_a_job_that_somebody_cancels_has_failed(cluster: str, tmp_path: Path) -> None:
    def cancel() -> None:
        states = subprocess.run(["squeue", "--noheader", "--array", "--format=%i"], capture_output=True, text=True)
        subprocess.run(["scancel", sorted(states.stdout.split())[0]], check=True)
        until(lambda: len(held_processes(tmp_path)) == 2)

    thread = threading.Thread(target=while_held, args=(tmp_path, cancel))
    thread.start()
    result = tuned(partial(Held, folder=tmp_path), tmp_path / "run", cluster, rounds=3, population=3)
    thread.join()
    assert result.done
    (text,) = said(tmp_path / "run", "died").values()
    assert text.endswith(" ended as CANCELLED, without a result")


@on_slurm
def test_a_driver_may_be_a_job_itself(cluster: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "go").touch()
    command = f"{sys.executable} -m popbandits run train.py -o run --engine slurm --slurm mem_gb=0.5,cpus_per_task=1"
    options = ["--array=7", "--wait", "--output=printed", f"--chdir={tmp_path}"]
    done = subprocess.run(["sbatch", *options, "--wrap", command], capture_output=True, text=True)
    assert done.returncode == 0, (tmp_path / "printed").read_text()
    assert History.load(tmp_path / "run") == expected(tmp_path)


@on_slurm
def test_what_sbatch_refuses_is_told_and_can_be_mended_on_resume(cluster: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"SLURM must accept the jobs of a run, got: .*invalid partition"):
        tune(Walker, space(), rounds=2, directory=tmp_path, engine="slurm", slurm={"partition": "x"}, progress=False)
    assert resume(tmp_path, slurm={"partition": "high"}, progress=False).done


@on_slurm
def test_a_submission_that_fails_later_is_tried_again(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when SLURM restarts: sbatch fails twice, after the first round."""
    shim = tmp_path / "bin" / "sbatch"
    shim.parent.mkdir()
    calls, real = tmp_path / "calls", shutil.which("sbatch")
    shim.write_text(f'#!/bin/sh\necho x >> {calls}\ncase $(wc -l < {calls}) in 2|3) exit 1;; esac\nexec {real} "$@"\n')
    shim.chmod(0o700)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm_engine, "RESUBMIT_SECONDS", 0.5)
    assert tuned(Walker, tmp_path / "run", cluster).history == in_process(tmp_path / "in-process", rounds=2)
    assert calls.read_text() == "x\n" * 4
