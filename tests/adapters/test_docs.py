"""The snippets of docs/adapters.md: each is complete, short, and runs as written, with fewer rounds."""

import re
import runpy
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text("utf-8")
SNIPPETS = dict(re.findall(r"^## ([^\n]+)\n+```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
HEAVY = {"Stable-Baselines3", "PyTorch Lightning", "Hugging Face Trainer"}
SHORTER = {
    "rounds=10": "rounds=2",
    "population=4": "population=2",
    "steps=2048": "steps=64, n_steps=64",
    "steps=20)": "steps=2)",
}


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
    runpy.run_path("snippet.py", run_name="__main__")
    printed = capsys.readouterr().out
    assert ("rate" if title == "Optuna" else "Observation(member=") in printed


@pytest.mark.parametrize("title", SNIPPETS)
def test_a_snippet_has_less_than_twenty_lines(title: str) -> None:
    assert len([line for line in SNIPPETS[title].splitlines() if line.strip()]) < 20


def test_every_adapter_has_a_snippet() -> None:
    assert list(SNIPPETS) == [
        "Stable-Baselines3",
        "PyTorch Lightning",
        "Hugging Face Trainer",
        "Training scripts",
        "Plain PyTorch",
        "Optuna",
    ]
