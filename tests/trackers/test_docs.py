"""The snippets of docs/callbacks.md run as written, in order."""

import re
import runpy
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "callbacks.md").read_text("utf-8")
SNIPPETS = dict(re.findall(r"^## ([^\n]+)\n+```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
TRAIN = PAGE.partition("```python\n")[2].partition("```")[0]
PRINTED = {
    "CSV": "member,round,parent_member,parent_round,stage,status,score_before,score,",
    "TensorBoard": "",
    "Weights & Biases": "",
    "MLflow": "",
    "Stop early": "\nTrue\n",
    "Stop at a cost": "the best for 5: ",
    "Your own callback": "new best: ",
}
HEAVY = {"Weights & Biases", "MLflow"}


def test_every_snippet_is_run() -> None:
    assert list(SNIPPETS) == list(PRINTED)


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")  # MLflow's, in SQLAlchemy
@pytest.mark.parametrize(
    "title", [pytest.param(title, marks=[pytest.mark.integration] if title in HEAVY else []) for title in PRINTED]
)
def test_a_snippet_runs_as_written(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "train", raising=False)
    Path("train.py").write_text(TRAIN)
    Path("snippet.py").write_text(SNIPPETS[title])
    runpy.run_path("snippet.py", run_name="__main__")
    monkeypatch.delitem(sys.modules, "train")
    assert PRINTED[title] in capsys.readouterr().out
    if title == "TensorBoard":
        assert len(list(tmp_path.glob("runs/tensorboard/curves/member_*/events.*"))) == 4
    if title == "MLflow":
        assert Path("mlflow.db").stat().st_size > 0
    if title == "Weights & Biases":
        assert len(list(tmp_path.glob("runs/wandb/wandb/offline-run-*/run-*.wandb"))) == 1
