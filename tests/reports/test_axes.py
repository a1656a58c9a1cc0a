"""Which axes the learning curves of a run can be drawn along, and what is sent for them."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from popbandits.errors import HistoryError
from popbandits.history import Observation
from popbandits.reports.axes import MAX_METRICS
from popbandits.reports.figures.charts import lines
from popbandits.reports.figures.learning import learning, metric_values
from popbandits.reports.live import live_run
from popbandits.reports.live.live_run import LiveRun
from popbandits.reports.live.news import News
from popbandits.reports.run import Run
from popbandits.space import Space
from popbandits.storage import Store
from popbandits.storage.queries import metrics
from popbandits.storage.schema import RUN_FILE
from tests.reports.served import served


def written(directory: Path, *more: dict[str, Any], first: int = 0) -> Path:
    """A run of one member, with an observation for each of these; added to one that is there."""
    there = (directory / RUN_FILE).exists()
    with Store.open(directory) if there else Store.create(directory, Space({"lr": (0.0, 1.0)}), {"size": 1}) as store:
        for t, fields in enumerate(more, first):
            store.extend([Observation(0, t, {"lr": 0.5}, (0, t - 1) if t else None, **({"score": 1.0 * t} | fields))])
    return directory


def readers(directory: Path) -> tuple[Run, LiveRun]:
    followed = LiveRun(directory)
    followed.refresh()
    return Run.read(directory), followed


def test_axes_without_data_are_not_offered(tmp_path: Path) -> None:
    for run in readers(written(tmp_path, {}, {"metrics": {"note": "text", "bad": float("inf"), "none": None}})):
        figure = learning(run)
        assert figure.axes == {"x": {}, "y": {}, "steep": 0, "far": 0}
        assert set(figure.data["members"][0]) <= {"member", "round", "score", "config"}


def test_a_total_of_which_a_part_is_unknown_is_not_drawn(tmp_path: Path) -> None:
    known = [{"steps": 100.0, "seconds": 0.0}, {"seconds": 0.0}, {"steps": 50.0, "seconds": 0.0}]
    for run in readers(written(tmp_path, *known)):
        figure = learning(run)
        assert [row.get("steps") for row in figure.data["members"]] == [100.0, None, None]
        assert figure.axes is not None
        assert list(figure.axes["x"]) == ["steps"]


def test_a_metric_that_some_intervals_lack_is_shown_for_the_others(tmp_path: Path) -> None:
    reported = [{"metrics": {"test": 0.25}}, {}, {"metrics": {"test": True}}]
    for run in readers(written(tmp_path, *reported)):
        assert metric_values(run, "test")["members"] == [0.25, None, 1.0]
        assert metric_values(run, "test")["summary"] == 2 * [0.25, None, 1.0]


def test_of_very_many_metrics_the_first_by_name_are_offered(tmp_path: Path) -> None:
    names = [f"metric {i:03}" for i in range(3 * MAX_METRICS)]
    for run in readers(written(tmp_path, *({"metrics": {name: 1.0}} for name in reversed(names)))):
        assert list(run.metrics) == names[:MAX_METRICS]


def test_a_page_learns_of_metrics_as_they_are_reported_and_reads_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def noted(store: Store, after: int, end: int) -> list[dict[str, Any]]:
        asked.append((after, end))
        return metrics(store, after, end)

    monkeypatch.setattr(live_run, "metrics", noted)
    followed = LiveRun(written(tmp_path, {}, {"metrics": {"a": 1.0}}))
    followed.refresh()
    assert followed.metrics == ["a"]
    assert asked == []  # Names are enough until a reader chooses.
    followed.metric("a")
    written(tmp_path, {"metrics": {"b": 2.0, "a": 3.0}}, first=2)
    followed.refresh()
    assert followed.metrics == ["a", "b"]
    assert followed.metric("a")[1:].tolist() == [[1.0], [3.0]]
    assert asked == [(0, 2), (2, 3)]


def test_curves_of_a_metric_are_made_anew_when_the_run_goes_on(tmp_path: Path) -> None:
    news = News(written(tmp_path, *({"metrics": {"m0": 1.0, "m1": 1.0}} for _ in range(3))))
    news.since(None)
    first = news.curves("m1")
    assert first is not None
    assert first["values"]["members"] == [1.0, 1.0, 1.0]
    written(tmp_path, {"metrics": {"m1": 5.0}}, first=3)
    news.since(None)
    then = news.curves("m1")
    assert then is not None
    assert then["values"]["members"] == [1.0, 1.0, 1.0, 5.0]


def test_metrics_of_another_run_that_took_the_folder_are_its_own(tmp_path: Path) -> None:
    news = News(written(tmp_path / "run", {"metrics": {"a": 1.0}}))
    news.since(None)
    (tmp_path / "run").rename(tmp_path / "gone")
    assert news.curves("a") is None
    written(tmp_path / "run", {"metrics": {"b": 2.0}})
    assert news.curves("a") is None
    news.since(None)
    assert news.curves("a") is None
    assert news.curves("b") is not None


def test_the_server_answers_with_the_curves_of_a_metric_that_it_knows(tmp_path: Path) -> None:
    written(tmp_path / "run", {"metrics": {"loss": {"<policy>": 1.5}}, "steps": 10.0})
    with served(tmp_path) as ask:
        answer = ask.get("/api/curves", {"run": "run", "metric": "loss.<policy>"})
        assert answer.json()["values"] == {"members": [1.5], "summary": [1.5, 1.5], "won": [1.5]}
        assert answer.json()["data"]["members"] == [{"member": 0, "round": 0, "score": 0.0, "steps": 10.0}]
        unknown = ask.get("/api/curves", {"run": "run", "metric": "level"})
        assert (unknown.status, unknown.text) == (404, "no interval has reported a number as 'level'\n")
        assert ask.get("/api/curves", {"run": "../run", "metric": "level"}).status == 404


@pytest.mark.parametrize("damage", ["steps = -1", "steps = 9e999", "seconds = -1", "metrics = '[1]'", "metrics = '{'"])
def test_a_damaged_number_or_metric_is_reported_and_not_drawn(damage: str, tmp_path: Path) -> None:
    written(tmp_path, {"steps": 1.0})
    connection = sqlite3.connect(tmp_path / RUN_FILE)
    connection.execute(f"UPDATE observation SET {damage}")
    connection.commit()
    connection.close()
    with pytest.raises(HistoryError, match=r"(steps|seconds) must be|metrics must be a dict|is damaged"):
        LiveRun(tmp_path).refresh()


def test_a_long_name_is_split_after_its_separators() -> None:
    assert lines("loss", 20) == ["loss"]
    assert lines("loss/policy_gradient_of_the_actor", 20) == ["loss/policy_", "gradient_of_the_", "actor"]
    assert lines(50 * "x", 20) == [20 * "x", 20 * "x", 10 * "x"]
