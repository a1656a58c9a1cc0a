"""Where the tests of SLURM run jobs: by submitit's local executor, and on a small SLURM of their own."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from popbandits.engines import slurm_engine

CONF = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=1,sched_interval=1
ReturnToService=2
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=2000 State=UNKNOWN
PartitionName=low Nodes={host} Default=YES PriorityTier=1
PartitionName=high Nodes={host} PriorityTier=10 PreemptMode=OFF
"""
"""Jobs in the partition `high` preempt those in `low`. Anybody may be anybody, so it listens to this machine only."""


@pytest.fixture(autouse=True)
def checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let drivers and jobs, which are processes of their own, import this checkout and its tests."""
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root / "src"), str(root)]))


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A SLURM of one node, without accounting."""
    tools = {name: shutil.which(name) for name in ("slurmctld", "slurmd", "slurmstepd", "sbatch")}
    if None in tools.values() or os.geteuid() != 0:
        pytest.skip("a SLURM of its own needs root, and slurmctld and slurmd: apt-get install slurm-wlm")
    folder = tmp_path_factory.mktemp("slurm")
    (plugins,) = Path(str(tools["slurmctld"])).resolve().parents[1].glob("lib/*/slurm-wlm")
    host = socket.gethostname().partition(".")[0]
    ports = [_free_port(), _free_port()]
    (folder / "slurm.conf").write_text(CONF.format(folder=folder, host=host, ports=ports, plugins=plugins))
    (folder / "state").mkdir()
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    daemons = []
    try:
        with (folder / "printed").open("w") as out:
            node = [tools["slurmd"], "-D", "-N", host, "-d", tools["slurmstepd"]]
            for command in ([tools["slurmctld"], "-D"], node):
                daemons.append(subprocess.Popen(command, stdout=out, stderr=out))  # type: ignore[arg-type]
        end = time.monotonic() + 300
        while "idle" not in subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True).stdout:
            assert time.monotonic() < end, (folder / "printed").read_text()
            time.sleep(0.2)
        yield
        while subprocess.run(["squeue", "--noheader"], capture_output=True, text=True).stdout:
            time.sleep(0.2)  # The last jobs need both daemons to end.
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
            daemon.kill()
            daemon.wait()
        os.environ.pop("SLURM_CONF")
        if before is not None:
            os.environ["SLURM_CONF"] = before


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(params=["local", "slurm"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where jobs run: as a value of the option `cluster`."""
    if request.param == "slurm":
        request.getfixturevalue("slurm")
        # A test has only one cluster to ask, on a local disk.
        monkeypatch.setattr(slurm_engine, "STATE_CHECK_SECONDS", 1.0)
        monkeypatch.setattr(slurm_engine, "RESULT_GRACE_SECONDS", 2.0)
        monkeypatch.setattr(slurm_engine, "POLL_SECONDS", 0.1)
    return str(request.param)
