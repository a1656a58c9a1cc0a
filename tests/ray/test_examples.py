"""Ray's own PB2 example with our scheduler in it, and our examples for Ray, run as a reader would."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from popbandits import History
from tests.ray.conftest import SETTINGS
from tests.ray.losing import LIMIT

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(script: Path, home: Path, *arguments: str) -> str:
    """What a script prints, on a Ray of its own and with a home of its own."""
    run = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=home,
        env=os.environ | SETTINGS | {"HOME": str(home), "RAY_ADDRESS": "local"},
        capture_output=True,
        text=True,
        timeout=3 * LIMIT,  # Two of these take minutes on an idle machine.
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.slow  # tests/ray/test_migration.py runs code in which only the import differs.
def test_rays_pb2_example_works_with_only_the_import_changed(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("ray.tune.examples.pb2_example")
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text()
    theirs, ours = "from ray.tune.schedulers.pb2 import PB2\n", "from popbandits.ray import PB2Fuse as PB2\n"
    assert text.count(theirs) == 1
    text = text.replace(theirs, ours).replace("num_samples=8,", "num_samples=4,")  # Each takes a process seconds.
    script = tmp_path / "pb2_example.py"
    script.write_text(text)
    assert "Best hyperparameters found were:  {" in run(script, tmp_path, "--smoke-test")
    history = History.load(tmp_path / "ray_results" / "pbt_test")
    assert {o.member for o in history} == set(range(4))
    assert max(o.metrics["training_iteration"] for o in history) == 30
    assert all(0.0001 <= o.config["lr"] <= 0.02 and not o.failed for o in history)
    assert any(o.parent is not None and o.parent[0] != o.member for o in history)


def test_the_example_for_tune_shows_the_schedule_it_found(tmp_path: Path) -> None:
    out = run(EXAMPLES / "ray_tune.py", tmp_path, "--iterations", "20")
    assert re.search(r"best accuracy [\d.]+; the schedule that led to it:\n", out)
    steps = re.findall(r"^ +(\d+)  lr 0\.\d{4}  (?:crop|flip|noise|cutout)$", out, re.MULTILINE)
    assert steps == ["0", "5", "10", "15"]


@pytest.mark.integration  # That a scheduler's copies train with their own values is held by test_schedulers.
def test_the_example_for_rllib_trains_a_copy_with_hyperparameters_of_its_own(tmp_path: Path) -> None:
    assert "best return " in run(EXAMPLES / "rllib_ppo.py", tmp_path, "--iterations", "4", "--trials", "2")
    [experiment] = (tmp_path / "ray_results").iterdir()
    history = History.load(experiment)
    assert sorted(o.key for o in history) == [(member, round) for member in range(2) for round in range(2)]
    [copy] = [o for o in history if o.parent is not None and o.parent[0] != o.member]
    assert copy.config["lr"] != history.find(copy.parent).config["lr"]
    for o in history:
        assert o.config == {name: o.metrics[f"applied/{name}"] for name in o.config}


@pytest.mark.integration  # The adapter has tests of its own, and so has Ray as an engine.
def test_the_example_for_stable_baselines3_trains_with_what_it_is_given(tmp_path: Path) -> None:
    out = run(EXAMPLES / "sb3_ppo.py", tmp_path, "--engine", "ray", "--rounds", "2", "--steps", "512")
    found = re.search(r"best return ([\d.]+), in (\S+); the schedule", out)
    assert found is not None
    history = History.load((tmp_path / found[2]).parents[1])
    assert len(history) == 8
    assert any(o.parent is not None and o.parent[0] != o.member for o in history)
