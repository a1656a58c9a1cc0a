"""The examples, run as a reader would."""

import importlib.util
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from popbandits import History
from popbandits.testing import AgentRule as Rule
from popbandits.testing import Report, check_agent, check_batched

EXAMPLES = Path(__file__).parents[1] / "examples"


def play(name: str, where: Path, *arguments: str) -> str:
    """What an example prints when it is run in an empty folder, every warning an error."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments]
    run = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize(
    ("name", "arguments", "at_least"),
    [("numpy_agent", [], 95), ("pytorch_supervised", ["--rounds", "3"], 40), ("batched_pytorch", [], 95)],
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
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested | on_ray
