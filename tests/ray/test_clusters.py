"""Clusters of other kinds as engines: with accelerators, far away, growing."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import ray

from popbandits import PBT, History, tune
from tests.engines.agents import Walker, space
from tests.processes import until
from tests.ray.conftest import SETTINGS
from tests.ray.losing import LIMIT, watchdog

ROOT = Path(__file__).parents[2]


@contextmanager
def started(*options: str) -> Iterator[dict[str, str]]:
    """A cluster apart from all others; the environment of those who use it."""
    environment = os.environ | SETTINGS | {"PYTHONPATH": str(ROOT)}
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--include-dashboard=false"]
    command += ["--min-worker-port=0", "--max-worker-port=0", f"--object-store-memory={100 * 2**20}"]
    command += ["--include-log-monitor=false", *options]
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:  # short, as sockets are in it
        process = subprocess.Popen(
            [*command, f"--temp-dir={folder}"],
            env=environment | {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1", "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert process.stdout is not None
            with watchdog():
                said = ""
                while "Ray runtime started" not in said:
                    said += (line := process.stdout.readline())
                    assert line, said
            yield environment
        finally:
            process.terminate()
            process.communicate(timeout=LIMIT)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # nodes that were added by the autoscaler


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def driver(environment: dict[str, str], directory: Path, *notes: Path, **resources: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.ray.elsewhere", str(directory), json.dumps(resources), *map(str, notes)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def tuned(driver: subprocess.Popen[str], directory: Path) -> History:
    try:
        said = driver.communicate(timeout=LIMIT)[1]
    finally:
        driver.kill()
    assert driver.returncode == 0, said
    return History.load(directory)


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> History:
    directory = tmp_path_factory.mktemp("in-process")
    return tune(Walker, space(), method=PBT(), rounds=3, directory=directory, progress=False).history


def test_members_wait_for_what_they_ask_for_and_share_an_accelerator(
    cluster: Any, in_process: History, tmp_path: Path
) -> None:
    (notes := tmp_path / "notes").mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RAY_ADDRESS": cluster.address}
    waiting = driver(environment, tmp_path / "run", notes, cpus=0.5, gpus=0.25, licence=1)
    until(lambda: waiting.poll() is not None or any(tmp_path.glob("run/checkpoints/seen-*")))  # It asks for actors.
    node = cluster.add_node(num_cpus=2, num_gpus=1, resources={"licence": 4}, object_store_memory=100 * 2**20)
    try:
        assert tuned(waiting, tmp_path / "run") == in_process
    finally:
        cluster.remove_node(node)
    given = [json.loads(note.read_text()) for note in notes.iterdir()]
    assert given == [[{"CPU": 0.5, "GPU": 0.25, "licence": 1.0}, ["0"], node.node_id]] * len(in_process)


@pytest.mark.slow  # Beside the one above, which is joined by its address, too.
def test_a_cluster_may_be_far_away(in_process: History, tmp_path: Path) -> None:
    for attempt in range(5):
        port = free_port()
        options = (f"--port={free_port()}", f"--ray-client-server-port={port}", "--num-cpus=2", "--no-monitor")
        with started(*options) as environment:
            try:
                there = environment | {"RAY_ADDRESS": f"ray://127.0.0.1:{port}"}
                found = tuned(driver(there, tmp_path / str(attempt)), tmp_path / str(attempt))
                break
            except AssertionError as error:  # Ray's server for a client does not always come up on a busy machine.
                if "Initialization failure from server" not in str(error):
                    raise
    assert found == in_process


@pytest.mark.slow  # Beside the first, to which the test and not Ray's autoscaler adds a node.
def test_members_wait_for_a_cluster_that_grows(in_process: History, tmp_path: Path) -> None:
    port = free_port()
    address = f"{ray.util.get_node_ip_address()}:{port}"
    growing = {"CPU": 1, "licence": 2, "object_store_memory": 100 * 2**20}
    commands = ("initialization", "setup", "head_setup", "worker_setup", "worker_start_ray")
    scaling = {
        "cluster_name": "growing",
        "max_workers": 1,
        "provider": {"type": "fake_multinode", "gcs_address": address, "disable_node_updaters": True},
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 0},
            "worker": {"resources": growing, "node_config": {}, "min_workers": 0, "max_workers": 1},
        },
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 1,
        "auth": {},
        "file_mounts": {},
        "cluster_synced_files": [],
        **{f"{name}_commands": [] for name in commands},
    }
    (tmp_path / "scaling.json").write_text(json.dumps(scaling))
    with started(f"--port={port}", f"--autoscaling-config={tmp_path / 'scaling.json'}", "--num-cpus=1") as environment:
        environment |= {"RAY_ADDRESS": address}
        waiting = driver(environment, tmp_path / "run", cpus=0.5, licence=1)
        assert tuned(waiting, tmp_path / "run") == in_process
