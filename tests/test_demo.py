"""`popbandits demo`, with a task that is over in a moment."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import popbandits.rl
import popbandits.run
from popbandits import History
from popbandits.cli import main
from popbandits.run import tune
from tests.engines.agents import Walker, space

DEFAULTS = {"lr": 0.1, "epochs": 2, "optimizer": "adam"}


def evaluate(checkpoint: Path, seed: int) -> float:
    agent = Walker(seed)
    agent.load(checkpoint)
    return -float(np.sum(agent.weights**2))


def test_the_demo_prints_the_schedule_the_three_scores_and_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = SimpleNamespace(
        space=space,
        DEFAULTS=DEFAULTS,
        POPULATION=2,
        ROUNDS=3,
        EVALUATIONS=4,
        make_agent=Walker,
        evaluate=evaluate,
    )
    monkeypatch.setattr(popbandits.rl, "demo", task, raising=False)
    # Processes take seconds to start, and what they do is tested elsewhere.
    monkeypatch.setattr(popbandits.run, "tune", lambda *a, **settings: tune(*a, **settings | {"engine": "threads"}))
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--seed", "1"]) == 0
    out = capsys.readouterr().out
    runs = {name: History.load(Path("runs/demo") / name) for name in ("tuned", "random", "untuned")}
    assert [len(history) for history in runs.values()] == [6, 6, 3]
    assert all(o.config == DEFAULTS for o in runs["untuned"])
    for name in ("tuned", "random"):
        began = {o.member: o.config for o in runs[name] if o.round == 0}
        assert began[0] == DEFAULTS != began[1]
    table = out.partition("member, round       score\n")[2].partition("\n\n")[0].splitlines()
    assert len(table) == 3
    assert re.match(r" +\d, 0 +-?[\d.]+  epochs=\d+ lr=[\d.e-]+ optimizer=", table[0])
    for history, label in zip(runs.values(), ("Near PBT", "random search", "the usual settings"), strict=True):
        assert history.best is not None
        assert re.search(rf"^  {label} +{history.best.score:.4g}$", out, re.MULTILINE)  # The walker has no luck.
    assert out.endswith("Everything is in runs/demo: try `popbandits replay runs/demo/tuned`.\n")
    assert main(["demo", "-o", "runs/demo"]) == 1
    assert "holds a run already" in capsys.readouterr().err
