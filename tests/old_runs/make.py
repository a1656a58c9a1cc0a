"""Make the stored runs of this folder. They were made once, at the commits below; do not make them again.

A later version has to read, resume and report what an earlier one wrote, so what is here is kept as it was written. For
the files of a newer version, add runs with new names. Each was made in a copy of the repository whose paths say nothing
of who made them:

    git clone . /srv/popbandits && cd /srv/popbandits
    PYTHONPATH=src:. python -m tests.old_runs.make [NAME ...]

Procgen takes minutes on a CPU. Its run was interrupted after the first round, and the same command finished it.

By version 0.1.0 at commit 5f9b210 (version 2 of the schema, nothing signed):

| run | what it holds |
|---|---|
| synchronous | PB2-Mix, steps that differ, failures; killed within a round, write-ahead log included |
| asynchronous | the default method, minimised; killed |
| batched | Restarts around MF-PBT, of a batch; killed |
| demo | what `popbandits demo` tunes, by its record alone; killed |
| procgen | a run of `popbandits procgen`, finished; without its checkpoints, which are megabytes |
| ray | the record of a Ray Tune experiment, finished; its checkpoints are Ray's own |

By the last commit whose records name methods by module, 256a024 (version 3 of the schema, signed by the key in
`account`, which signs nothing else):

| run | what it holds |
|---|---|
| patient | Patient PBT from a start, log ranges and a normal distribution, settings that are not the defaults; killed |
| mix | PB2-Mix, asynchronous, steps that differ; killed |
| restarts | "ipbt" by name; killed |
| own | a method and a selection that are not of popbandits, the latter within one that is; killed |
| tuned | the record of a Ray Tune experiment with the default method, finished |

Beside each, NAME.json says what the uninterrupted run came to, in a format of its own: the fields of every observation,
and what `popbandits status --json` said of the stored run.
"""

import json
import math
import multiprocessing
import os
import platform
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ConfigSpace.hyperparameters import NormalFloatHyperparameter

from popbandits import PBT, History, Observation, PB2Mix, View, log, tune
from tests.old_runs.agents import Descender, Walker, Walkers, space
from tests.old_runs.explorers import FromBest, Jitter

FOLDER = Path(__file__).parent
RECORD = "run.sqlite"
ACCOUNT = FOLDER / "account"
"""State of the account that began the signed runs: its key."""


class KillAfter(View):
    """Kill this process when so many observations are on record."""

    def __init__(self, observations: int):
        self.left = observations

    def told(self, observation: Observation) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def killed(run: Path, after: int, keep_log: bool = False, **settings: Any) -> None:
    """Store a run that was killed, and what it would have come to."""
    settings = {"space": space(), "seed": 1} | settings
    process = multiprocessing.get_context("fork").Process(
        target=tune, kwargs=settings | {"directory": run, "progress": KillAfter(after)}
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with TemporaryDirectory() as folder:
        describe(run, tune(directory=Path(folder, "whole"), progress=False, **settings).history)
    if not keep_log:  # It is larger than the rest of the run.
        with closing(sqlite3.connect(run / RECORD)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # SQLite removes the log when it is closed.
    Path(run, f"{RECORD}-shm").unlink(missing_ok=True)  # An index that SQLite makes again.


def describe(run: Path, history: History) -> None:
    """Write what the uninterrupted run came to."""
    observations = [{f.name: plain(getattr(o, f.name)) for f in fields(o)} for o in history]
    (status,) = json.loads(popbandits("status", str(run), "--json"))
    about = {name: value for name, value in status.items() if name not in ("directory", "changed")}
    rows = ",\n".join(json.dumps(row) for row in observations)
    run.with_suffix(".json").write_text(f'{{"status": {json.dumps(about)},\n"observations": [\n{rows}\n]}}\n')


def plain(value: Any) -> Any:
    """Turn a field of an observation into JSON: NaN is none, a pair is a list."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def popbandits(*arguments: str) -> str:
    """Run a command line."""
    command = [sys.executable, "-m", "popbandits", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def make_synchronous(run: Path) -> None:
    killed(run, 14, keep_log=True, agent=Walker, method=PB2Mix(), rounds=6)


def make_asynchronous(run: Path) -> None:
    killed(run, 13, agent=Descender, population=3, rounds=8, synchronous=False, mode="min", keep=1)


def make_batched(run: Path) -> None:
    from popbandits import MFPBT, Restarts  # type: ignore[attr-defined]  # as they were called then

    selection = Restarts(patience=1, within=MFPBT(intervals=(1, 2)))
    killed(run, 22, agent=Walkers, method=PBT(), rounds=10, selection=selection, engine="batched")


def make_demo(run: Path) -> None:
    from popbandits.rl import demo

    usual = {"clip": 0.2, "entropy": 0.0, "gae_lambda": 0.95, "epochs": 1, "optimizer": "sgd"}
    start = [usual | {"lr": 0.01, "momentum": 0.5}, usual | {"lr": 0.001, "momentum": 0.9}]
    killed(run, 3, agent=demo.make_agent, space=demo.space(), population=2, rounds=2, start=start)


def make_procgen(run: Path) -> None:
    from popbandits.cli import main

    with TemporaryDirectory() as folder:
        size = "--population 2 --steps 4096 --interval 2048 --device cpu"
        assert main(f"procgen --quick --game bigfish {size} -o {folder}".split()) == 0
        keep_record(Path(folder, "bigfish", "pb2-mix", "0"), run)


def make_patient(run: Path) -> None:
    from popbandits import Patient, PatientPBT  # type: ignore[attr-defined]  # as they were called then

    momentum = NormalFloatHyperparameter("momentum", mu=0.5, sigma=0.2, lower=0.0, upper=0.9)
    ranges = {"lr": log(1e-3, 1.0), "epochs": log(1, 8), "optimizer": ["sgd", "adam"], "momentum": momentum}
    start = [{"lr": 0.05, "optimizer": "adam"}, {"lr": 0.2, "epochs": 2, "momentum": 0.4}]
    method, selection = PatientPBT(crossover=0.2), Patient(warm_up=0.1)
    killed(run, 18, agent=Walker, space=ranges, method=method, selection=selection, start=start, rounds=8)


def make_mix(run: Path) -> None:
    killed(run, 15, agent=Descender, method=PB2Mix(), rounds=6, synchronous=False, mode="min")


def make_restarts(run: Path) -> None:
    killed(run, 14, agent=Walker, method="ipbt", rounds=6)


def make_own(run: Path) -> None:
    from popbandits import Restarts  # type: ignore[attr-defined]  # as it was called then

    selection = Restarts(patience=2, within=FromBest(nth=2))
    killed(run, 14, agent=Walker, method=Jitter(width=0.3), selection=selection, rounds=6)


def make_ray(run: Path) -> None:
    from popbandits.ray import PB2Mix as Scheduler

    play(run, Scheduler(time_attr="training_iteration", perturbation_interval=2, quantile_fraction=0.5))


def make_tuned(run: Path) -> None:
    from popbandits.ray import PatientPBT as Scheduler  # type: ignore[attr-defined]

    play(run, Scheduler(time_attr="training_iteration", perturbation_interval=2))


def play(run: Path, scheduler: Any) -> None:
    """Store the record of a Ray Tune experiment."""
    import ray
    from ray import tune as ray_tune

    from tests.ray.conftest import SETTINGS
    from tests.ray.trainables import PARAM_SPACE, Climber

    os.environ.update(SETTINGS)
    ray.init(address="local", num_cpus=2, log_to_driver=False, include_dashboard=False)
    with TemporaryDirectory() as folder:
        ray_tune.Tuner(
            Climber,
            param_space=PARAM_SPACE,
            tune_config=ray_tune.TuneConfig(scheduler=scheduler, num_samples=3, metric="score", mode="max"),
            run_config=ray_tune.RunConfig(name="ray", storage_path=folder, stop={"training_iteration": 10}, verbose=0),
        ).fit()
        ray.shutdown()
        keep_record(Path(folder, "ray"), run)


def keep_record(source: Path, run: Path) -> None:
    """Store the record of a finished run, without anything else of it."""
    run.mkdir()
    shutil.copy(source / RECORD, run)
    with closing(sqlite3.connect(run / RECORD, isolation_level=None)) as connection:
        for name, other in (("hostname", "elsewhere"), ("node_ip", "127.0.0.1")):  # Ray puts them among the metrics.
            changed = f"UPDATE observation SET metrics = json_replace(metrics, '$.{name}', ?)"
            connection.execute(f"{changed} WHERE json_type(metrics, '$.{name}') IS NOT NULL", (other,))
        connection.execute("VACUUM")
    describe(run, History.load(run))
    for end in ("wal", "shm"):  # Left by those who read it; the log is empty.
        Path(run, f"{RECORD}-{end}").unlink(missing_ok=True)


RUNS: dict[str, Callable[[Path], None]] = {
    "synchronous": make_synchronous,
    "asynchronous": make_asynchronous,
    "batched": make_batched,
    "demo": make_demo,
    "procgen": make_procgen,
    "ray": make_ray,
    "patient": make_patient,
    "mix": make_mix,
    "restarts": make_restarts,
    "own": make_own,
    "tuned": make_tuned,
}
SIGNED = ("patient", "mix", "restarts", "own", "tuned")

if __name__ == "__main__":
    platform.node = lambda: "elsewhere"  # Records name the machine.
    for name in sys.argv[1:] or RUNS:
        os.environ["XDG_STATE_HOME"] = (
            str(ACCOUNT) if name in SIGNED else os.devnull
        )  # Without a key, nothing is signed.
        RUNS[name](FOLDER / name)
