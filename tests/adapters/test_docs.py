"""The snippets of docs/adapters.md: each is complete, short, and runs as written, with fewer rounds."""

import ast
import importlib
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import History, Observation
from popbandits.selection.selection import Picks

PAGE = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text("utf-8")
SNIPPETS = dict(re.findall(r"^## ([^\n]+)\n+```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
TASKS = {
    "rsl_rl": "from tests.adapters.robots import rsl_rl_config as make_config, rsl_rl_env as make_env",
    "skrl": "from tests.adapters.robots import skrl_config as make_config, skrl_env as make_env",
    "rl_games": "from tests.adapters.robots import register_rl_games_env, rl_games_config as make_config\n"
    "register_rl_games_env()",
    "TRL": "from tests.adapters.language_models import PROMPTS, TOKENIZER as tokenizer, Dataset, load_base, reward\n"
    "prompts = Dataset.from_dict({'prompt': PROMPTS})",
}
"""What the snippets import as a user's own: environments and configurations, models and data."""

HEAVY = {"Stable-Baselines3", "PyTorch Lightning", "Hugging Face Trainer", *TASKS}
SHORTER = {
    "rounds=10": "rounds=2",
    "population=4": "population=2",
    "steps=2048": "steps=64, n_steps=64",
    "steps=20": "steps=2",
    "iterations=50": "iterations=2",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:rl_games")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # rl_games uses what PyTorch will remove.
@pytest.mark.parametrize(
    "title", [pytest.param(title, marks=[pytest.mark.integration] if title in HEAVY else []) for title in SNIPPETS]
)
def test_a_snippet_runs_as_written(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = SNIPPETS[title]
    for written, shorter in SHORTER.items():
        source = source.replace(written, shorter)
    (tmp_path / "snippet.py").write_text(source)
    (tmp_path / "my_task.py").write_text(TASKS.get(title, ""))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_task", raising=False)
    runpy.run_path("snippet.py", run_name="__main__")
    printed = capsys.readouterr().out
    assert "Observation(member=" in printed


@pytest.mark.parametrize("title", SNIPPETS)
def test_a_snippet_has_less_than_twenty_lines(title: str) -> None:
    assert len([line for line in SNIPPETS[title].splitlines() if line.strip()]) < 20


def test_every_adapter_has_a_snippet() -> None:
    assert list(SNIPPETS) == [
        "Stable-Baselines3",
        "rsl_rl",
        "skrl",
        "rl_games",
        "PyTorch Lightning",
        "Hugging Face Trainer",
        "TRL",
        "Training scripts",
        "Plain PyTorch",
        "Optuna",
    ]


ISAAC = (Path(__file__).parents[2] / "docs" / "howto" / "isaac_lab.md").read_text("utf-8")


def test_the_selection_with_a_margin_and_grace_keeps_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *for_isaac, code = re.findall(r"^```python\n(.*?)```", ISAAC, re.DOTALL | re.MULTILINE)
    for snippet in for_isaac:  # They need Isaac Sim, and are only parsed.
        ast.parse(snippet)
    (tmp_path / "margin_of_isaac.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    margin = importlib.import_module("margin_of_isaac")  # It calls check_selection.

    def weights(observations: list[Observation], **settings: Any) -> list[int]:
        history = History({"x": (0.0, 1.0)}, observations, size=4)
        picks: Picks = margin.Margin(**settings).select(history, np.arange(4), np.random.default_rng(0))
        return picks.weights.tolist()

    config = {"x": 0.5}
    first = [Observation(member, 0, config, score=score) for member, score in enumerate((0.0, 1.0, 1.1, 1.2))]
    assert weights(first, margin=2.4) == [3, 1, 2, 3]  # The best leads by 2.49 standard deviations.
    assert weights(first, margin=2.6) == [0, 1, 2, 3]
    parents = ((3, 0), (1, 0), (2, 0), (3, 0))
    second = [
        Observation(member, 1, config, parent=parents[member], score=seen.score, score_before=seen.score)
        for member, seen in enumerate(first)
    ]
    assert weights(first + second, margin=0.0, grace=0) == [7, 5, 6, 7]
    assert weights(first + second, margin=0.0, grace=1) == [4, 5, 6, 7]
