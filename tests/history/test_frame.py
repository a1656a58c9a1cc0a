"""Histories as tables."""

import re
from pathlib import Path

import pandas
import pytest

from popbandits.errors import MissingExtraError
from popbandits.history import History, Observation
from popbandits.history.frame import MAX_SHOWN
from popbandits.run import Result
from popbandits.selection.choice import choose_by_scores
from popbandits.storage import Store
from tests.reports.played import HOSTILE, Clumsy, play, space
from tests.storage.test_handed_over import noisy


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return History.load(play(tmp_path_factory.mktemp("runs") / "run", Clumsy, rounds=12))


def test_a_frame_has_a_row_for_each_observation_and_its_types(history: History) -> None:
    table = history.to_pandas()
    assert len(table) == len(history)
    assert table["score"].tolist() == pytest.approx([o.score for o in history], nan_ok=True)
    assert table["winning"].sum() == len(history.lineage())
    assert table["config.momentum"].isna().tolist() == ["momentum" not in o.config for o in history]
    assert table.loc[0, "parent_member"] is pandas.NA
    kinds = {name: str(table[name].dtype) for name in ("member", "parent_round", "score", "config.epochs", "winning")}
    assert kinds == {
        "member": "int64",
        "parent_round": "Int64",
        "score": "float64",
        "config.epochs": "int64",
        "winning": "bool",
    }
    assert "metrics.loss.policy" in table


def test_an_empty_history_has_the_columns_all_the_same() -> None:
    table = History(space()).to_pandas()
    assert len(table) == 0
    assert {"member", "score", "config.lr"} <= set(table.columns)


def test_a_notebook_shows_the_end_of_the_winning_schedule(history: History) -> None:
    shown = history._repr_html_()
    assert shown.count("<tr>") == 1 + min(MAX_SHOWN, len(history.lineage()))
    assert f"{history.best.score:g}" in shown if history.best else False


def test_what_a_notebook_shows_is_text(tmp_path: Path) -> None:
    history = History.load(play(tmp_path / "run", space=space(HOSTILE), rounds=2))
    assert "<script" not in history._repr_html_()
    assert "<img" not in history._repr_html_()


def test_without_pandas_it_says_what_to_install(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'popbandits[report]'")):
        history.to_pandas()


def test_a_result_shows_what_it_hands_over_and_how_it_was_reached(tmp_path: Path) -> None:
    noisy("max").save(tmp_path)
    result = Result(tmp_path)
    line = result.history.lineage(result.choice.observation)
    assert line != result.history.lineage()
    shown = result._repr_html_()
    assert shown.startswith(f"<p>Handed over: {result.choice}</p>")
    assert "<caption>The lineage handed over, its last 10 of " in shown
    last = line[-1]
    assert f"<tr><td>{last.member}</td><td>{last.round}</td><td>{last.score:.4g}</td><td>0.5</td></tr></tbody>" in shown
    table = result.to_pandas()
    won = table[table["winning"]]
    assert list(zip(won["member"], won["round"], strict=True)) == sorted((o.key for o in line), key=lambda key: key[1])
    assert not History.load(tmp_path).to_pandas().equals(table)


def test_a_result_whose_run_goes_on_chooses_from_the_history_that_it_has_read(tmp_path: Path) -> None:
    whole = noisy("max")
    before = whole.prefix(40)
    before.save(tmp_path)
    result = Result(tmp_path)
    assert len(result.history) == 40
    with Store.open(tmp_path) as store:
        store.write(whole[40:])
    assert result.choice == choose_by_scores(before)
    assert result.schedule == before.schedule(result.choice.observation)
    assert Result(tmp_path).choice == choose_by_scores(whole) != result.choice


def test_a_result_without_a_completed_interval_is_shown_too(tmp_path: Path) -> None:
    History({"x": (0.0, 1.0)}, [Observation(0, 0, {"x": 0.5}, status="failed")]).save(tmp_path)
    assert "none completed" in Result(tmp_path)._repr_html_()
    assert Result(tmp_path).to_pandas()["winning"].tolist() == [False]
