"""The examples, run as a reader would."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from popbandits import History

EXAMPLES = Path(__file__).parents[1] / "examples"


def play(name: str, where: Path, *arguments: str) -> str:
    """What an example prints when it is run in an empty folder, every warning an error."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments]
    run = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize(
    ("name", "arguments", "at_least"),
    [("numpy_agent", [], 95), ("pytorch_supervised", ["--rounds", "6"], 60), ("batched_pytorch", [], 95)],
)
def test_an_example_with_an_agent_learns_and_says_where_it_is_kept(
    name: str, arguments: list[str], at_least: float, tmp_path: Path
) -> None:
    out = play(name, tmp_path, *arguments)
    found = re.search(r"The best agent gets ([\d.]+)% right", out)
    assert found is not None
    assert float(found[1]) > at_least
    kept = re.search(r"Everything is in (\S+), the best agent in (\S+)\.$", out, re.MULTILINE)
    assert kept is not None
    assert History.load(tmp_path / kept[1]).rounds is not None
    assert any((tmp_path / kept[2]).iterdir())


def test_the_example_of_ask_and_tell_gets_down_the_valley_and_goes_on(tmp_path: Path) -> None:
    out = play("ask_tell", tmp_path)
    found = re.search(r"From 12 down to (\S+), with these step sizes:", out)
    assert found is not None
    assert float(found[1]) < 0.1
    assert out.endswith("Stored, loaded and made longer, it goes on with round 15.\n")


def test_every_example_is_tested() -> None:
    tested = {"numpy_agent", "pytorch_supervised", "batched_pytorch", "ask_tell"}
    on_ray = {"ray_tune", "rllib_ppo", "sb3_ppo"}  # in tests/ray
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested | on_ray
