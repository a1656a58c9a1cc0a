"""What is wrong with a run on SLURM is said before a job is submitted, with what to do about it."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from popbandits import ArgumentError, Experiment, HistoryError, MissingExtraError, resume, tune
from popbandits.basics.settings import JOB, read_options
from popbandits.cli import main
from popbandits.engines import slurm_engine
from popbandits.engines.work import Job
from popbandits.errors import RunError
from popbandits.history import Assignment
from popbandits.storage.store import Store
from tests.engines.agents import Walker, space


def test_without_submitit_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingExtraError, match=r"engine='slurm' needs submitit.*pip install 'popbandits\[slurm\]'"):
        tune(Walker, space(), engine="slurm", directory=tmp_path, progress=False)


def test_without_slurm_the_error_says_where_to_start_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match=r"sbatch is not on the PATH; .*login node, or .*--slurm cluster=local"):
        tune(Walker, space(), engine="slurm", directory=tmp_path / "run", progress=False)
    assert resume(tmp_path / "run", engine="in-process", rounds=1, progress=False).done


def test_a_link_in_place_of_its_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "1_submitted.pkl").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "slurm").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="slurm must be the run's own folder, got a link; remove it"):
        tune(Walker, space(), engine="slurm", slurm={"cluster": "local"}, directory=tmp_path / "run", progress=False)
    assert (tmp_path / "elsewhere" / "1_submitted.pkl").exists()


def test_a_folder_with_the_name_of_a_result_stops_no_run_and_stays(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"engine": "slurm", "slurm": {"cluster": "local"}, "population": 2, "progress": False}
    tune(Walker, space(), rounds=1, directory=tmp_path, **settings)
    (tmp_path / "slurm" / "1_0_result.pkl" / "notes").mkdir(parents=True)
    (tmp_path / "slurm" / "2_0_result.pkl").write_bytes(b"of a killed run")
    assert resume(tmp_path, rounds=2, progress=False).done
    assert (tmp_path / "slurm" / "1_0_result.pkl" / "notes").is_dir()
    assert not (tmp_path / "slurm" / "2_0_result.pkl").exists()


@pytest.mark.parametrize(
    "options",
    [
        "gpu",
        {"partitions": "gpu"},
        {"partition": ""},
        {"partition": "gpu\nrm -r ."},
        {"setup": "rm -r ."},
        {"output": "elsewhere"},
        {"cpus_per_task": 1.5},
        {"timeout_min": 0},
        {"timeout_min": "1:00:00"},
        {"cluster": "ray"},
        {3: "gpu"},
    ],
)
def test_options_of_jobs_are_harmless_whoever_wrote_them(options: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^slurm must be a dict of texts of one line and numbers, with names of"):
        Experiment(Walker, space(), engine="slurm", slurm=options)
    tune(Walker, space(), rounds=1, directory=tmp_path, progress=False)
    with Store.open(tmp_path) as store:
        store.describe(slurm={str(k): v for k, v in options.items()} if isinstance(options, dict) else options)
    with pytest.raises(HistoryError, match="slurm must be a dict"):
        resume(tmp_path, progress=False)


def test_texts_on_the_command_line_stay_as_they_were_typed() -> None:
    typed = "account=007,partition=nan,reservation=1_000,gpus_per_node=2,mem_gb=.5,timeout_min=90"
    assert read_options(typed) == {
        "account": "007",
        "partition": "nan",
        "reservation": "1_000",
        "gpus_per_node": "2",
        "mem_gb": 0.5,
        "timeout_min": 90,
    }
    assert JOB.holds(read_options(typed))


def test_jobs_that_sbatch_may_have_submitted_although_it_failed_have_no_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, run = tmp_path / "bin", tmp_path / "run"
    tools.mkdir()
    for name in slurm_engine.SLURM_COMMANDS:
        (tools / name).write_text("#!/bin/sh\nls checkpoints >> leases\necho 'Socket timed out' >&2\nexit 1\n")
        (tools / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    (run / "checkpoints").mkdir(parents=True)
    monkeypatch.chdir(run)
    engine = slurm_engine.SlurmEngine(Walker, 1, run)
    engine.submit(Job(Assignment(0, 0, {}), 0, None, run / "draft"))
    with pytest.raises(RunError, match=r"SLURM must accept the jobs of a run, got: .*Socket timed out"):
        engine.wait()
    assert "seen-" in (run / "leases").read_text()  # There was one for it.
    assert list((run / "checkpoints").iterdir()) == []


def test_options_at_the_edge_of_the_rule_are_taken() -> None:
    for options in ({}, {"timeout_min": 0.5, "nice": 0}, {"gres": "gpu:a100:1", "nodelist": "n[1-3],n7"}):
        assert JOB.holds(options), options


def test_the_command_line_takes_options_of_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "slurm_train.py").write_text(
        "from popbandits import Experiment\nfrom tests.engines.agents import Walker, space\n"
        "experiment = Experiment(Walker, space())\n"
    )
    command = ["run", f"{tmp_path / 'slurm_train.py'}", "--engine", "slurm", "--dry-run", "--slurm"]
    assert main([*command, "partition=gpu,nodelist=n1,n2,timeout_min=90"]) == 0
    assert "{'partition': 'gpu', 'nodelist': 'n1,n2', 'timeout_min': 90}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*command, "gpu"])
    assert "slurm must be a dict" in capsys.readouterr().err
