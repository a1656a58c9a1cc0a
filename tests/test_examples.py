"""The examples, run as a reader would."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from popbandits import History
from popbandits.testing import AgentRule as Rule
from popbandits.testing import Report, check_agent, check_batched
from tests.processes import run_script

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Let no example decide on how many threads the tests after it run."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("name", "arguments", "at_least"),
    [
        ("numpy_agent", [], 95),
        # Their agents pass the check below.
        pytest.param("pytorch_supervised", ["--rounds", "2"], 40, marks=pytest.mark.slow),
        pytest.param("batched_pytorch", [], 95, marks=pytest.mark.slow),
    ],
)
def test_an_example_with_an_agent_learns_and_says_where_it_is_kept(
    name: str, arguments: list[str], at_least: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_script(EXAMPLES / f"{name}.py", tmp_path, *arguments)
    out = capsys.readouterr().out
    found = re.search(r"The best agent gets ([\d.]+)% right", out)
    assert found is not None
    assert float(found[1]) > at_least
    kept = re.search(r"Everything is in (\S+), the best agent in (\S+)\.$", out, re.MULTILINE)
    assert kept is not None
    assert History.load(tmp_path / kept[1]).rounds is not None
    assert any((tmp_path / kept[2]).iterdir())


def test_the_example_of_ask_and_tell_gets_down_the_valley_and_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / "ask_tell.py")]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = re.search(r"From 12 down to (\S+), with these step sizes:", run.stdout)
    assert found is not None
    assert float(found[1]) < 0.1
    assert run.stdout.endswith("Stored, loaded and made longer, it goes on with round 15.\n")


# What `popbandits check` says of the agents, on intervals that are shorter than the example's own.


def module(name: str, monkeypatch: pytest.MonkeyPatch, **smaller: Any) -> ModuleType:
    """Import an example, with some of its constants changed."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for constant, change in smaller.items():
        monkeypatch.setattr(made, constant, change(getattr(made, constant)))
    return made


def test_the_agent_in_numpy_passes_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    example = module("numpy_agent", monkeypatch)
    flawless(check_agent(example.SpiralAgent, example.SPACE))


def test_the_agent_in_pytorch_passes_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    example = module("pytorch_supervised", monkeypatch, TRAINING=lambda pictures: tuple(part[:40] for part in pictures))
    flawless(check_agent(example.PictureAgent, example.SPACE))


def test_the_batched_agents_pass_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    example = module("batched_pytorch", monkeypatch, STEPS=lambda steps: steps // 5)
    flawless(check_batched(example.Networks, example.SPACE))


@pytest.mark.slow  # tests/adapters/test_stable_baselines3.py checks agents of the same class.
def test_the_agent_of_stable_baselines3_passes_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    example = module("sb3_ppo", monkeypatch, EPISODES=lambda _: 2)
    # Nothing is clipped in an interval of 64 steps.
    report = check_agent(partial(example.make_agent, steps=64), example.SPACE)
    assert report.ok, str(report)
    assert [(each.rule, each.text.split(":")[0]) for each in report.warnings] == [(Rule.USED, "clip_range")]


def flawless(report: Report) -> None:
    assert {finding.status for finding in report.findings} == {"ok"}, str(report)


def test_every_example_is_tested() -> None:
    tested = {"numpy_agent", "pytorch_supervised", "batched_pytorch", "ask_tell"}
    on_ray = {"ray_tune", "rllib_ppo", "sb3_ppo"}  # in tests/ray
    elsewhere = {"batched_jax", "trl_grpo"}  # in tests/engines and tests/adapters
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested | on_ray | elsewhere
