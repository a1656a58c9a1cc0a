"""What the live page is told of runs, and who is told."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote

import numpy as np
import pytest

from popbandits import PBT, Population
from popbandits.advice import advise
from popbandits.basics.wording import setting
from popbandits.cli import main
from popbandits.errors import ArgumentError
from popbandits.history import Decision, Event, History, Observation
from popbandits.reports.figures.learning import learning
from popbandits.reports.figures.schedules import schedules
from popbandits.reports.live import live_run, updates
from popbandits.reports.live import news as news_module
from popbandits.reports.live.guard import HEADERS
from popbandits.reports.live.live_run import LiveRun
from popbandits.reports.live.member import member
from popbandits.reports.live.news import MAX_LOG_ENTRIES, MEMBER_COLUMNS, News
from popbandits.reports.live.runs import Runs
from popbandits.reports.live.updates import WarningsUpdate
from popbandits.reports.run import Run
from popbandits.storage import Store
from popbandits.storage.folders import file_stamp
from popbandits.storage.schema import RUN_FILE
from tests.reports.played import HOSTILE, Clumsy, play, space
from tests.reports.served import Asking, served
from tests.warned_runs import stuck_then_rising


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, one with failures and hostile names."""
    made = tmp_path_factory.mktemp("runs")
    play(made / "clumsy", Clumsy, space=space(HOSTILE), rounds=10, seed=1)
    play(made / "deeper" / "smooth", rounds=4, method=PBT(), mode="min")
    play(made / "own pace", Clumsy, rounds=6, synchronous=False, engine="threads", workers=3)
    return made


def copied(run: Path, into: Path, observations: int) -> Path:
    """The run when it had so many observations; with all the decisions made until then."""
    with Store.open(run, readonly=True) as store:
        known, decided = list(store.observations())[:observations], list(store.decisions())
        new = not (into / RUN_FILE).exists()
        with Store.create(into, store.space, store.about) if new else Store.open(into) as other:
            other.write(known[len(other) :], [d for d in decided if d.known <= observations])
    return into


# What figures are drawn from


@pytest.mark.parametrize("name", ["clumsy", "deeper/smooth", "own pace"])
def test_a_run_that_is_followed_reads_as_one_that_is_read_whole(name: str, folder: Path, tmp_path: Path) -> None:
    followed = LiveRun(tmp_path / "run")
    for length in (1, 7, 16):
        directory = copied(folder / name, tmp_path / "run", length)
        followed.refresh()
        run = Run.read(directory)
        assert len(followed) == followed.trained == length
        np.testing.assert_array_equal(followed.scores[:, : run.scores.shape[1]], run.scores)
        np.testing.assert_array_equal(followed.best_by_round, run.best_by_round)
        assert followed.lineage == run.lineage
        assert followed.winning == run.winning
        assert followed.sign == run.sign
        mine, whole = followed.intervals, run.intervals
        order = np.lexsort((mine.member, mine.round))
        for field in ("member", "round", "change"):
            np.testing.assert_array_equal(getattr(mine, field)[order], getattr(whole, field), field)
        np.testing.assert_array_equal(mine.points.h[order], whole.points.h)
        np.testing.assert_array_equal(mine.points.x[order], whole.points.x)


def test_an_interval_that_never_trained_is_not_drawn(tmp_path: Path) -> None:
    with Store.create(tmp_path, space_of_one(), {"size": 1}) as store:
        lost = Observation(0, 1, {"lr": 0.9}, (0, 0), 1.0, status="lost")
        store.extend([Observation(0, 0, {"lr": 0.5}, score=1.0), lost])
    followed, run = LiveRun(tmp_path), Run.read(tmp_path)
    followed.refresh()
    assert followed.trained == run.trained == 1
    assert followed.intervals.round.tolist() == run.intervals.round.tolist() == [0]


def test_figures_of_a_run_that_is_followed_are_those_of_the_report(folder: Path) -> None:
    followed, run = LiveRun(folder / "clumsy"), Run.read(folder / "clumsy")
    followed.refresh()
    for figures in ((learning(followed), learning(run)), (schedules({"": [followed]}), schedules({"": [run]}))):
        mine, theirs = figures
        assert mine.spec | {"datasets": None} == theirs.spec | {"datasets": None}
        for source, rows in theirs.data.items():
            without = [{k: v for k, v in row.items() if k != "config"} for row in rows]
            assert sorted(map(json.dumps, mine.data[source])) == sorted(map(json.dumps, without))


def test_of_a_long_run_a_steady_sample_and_the_whole_winning_lineage_are_drawn(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_run, "MAX_CONFIGS", 8)
    followed = LiveRun(tmp_path)
    earlier: set[Any] = set()
    for length in (33, 36, 40):
        copied(folder / "clumsy", tmp_path, length)
        followed.refresh()
        drawn = set(zip(followed.intervals.member.tolist(), followed.intervals.round.tolist(), strict=True))
        assert followed.winning <= drawn
        others = drawn - followed.winning
        assert 0 < len(others) <= 16
        assert {key for key in earlier if key not in followed.winning} <= drawn | followed.winning
        earlier = others


def test_a_longer_axis_leaves_room_for_a_run_without_an_end(tmp_path: Path) -> None:
    population = Population({"lr": (0.0, 1.0)}, PBT(), size=2)
    followed = LiveRun(tmp_path)
    horizons = []
    for _ in range(20):
        for assignment in population.ask():
            population.tell(assignment, 1.0)
        population.history.save(tmp_path)
        followed.refresh()
        assert followed.horizon >= followed.scores.shape[0] - 1
        horizons.append(followed.horizon)
    assert len(set(horizons)) <= 3


# What a page is told


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures and warnings are made anew at once, however long they take on a busy machine."""
    monkeypatch.setattr(updates, "PAUSE_FACTOR", 0.0)


@pytest.mark.usefixtures("hasty")
def test_a_page_is_told_all_at_first_and_then_what_changed(folder: Path, tmp_path: Path) -> None:
    news = News(copied(folder / "clumsy", tmp_path, 10))
    first = news.since(None)
    assert first is not None
    assert first["whole"]
    assert [row[0] for row in first["members"]] == [0, 1, 2, 3]
    assert first["figures"] == {}  # They take longer, and come next.
    second, figures = rest(news, first["version"])
    assert set(figures) == {"learning", "schedules"}
    assert all("spec" in figure for figure in figures.values())
    assert news.since(second) is None
    copied(folder / "clumsy", tmp_path, 11)
    third = news.since(second)
    assert third is not None
    assert [row[0] for row in third["members"]] == [2]
    assert third["facts"]["observations"] == "11"
    assert third["more"]
    _, figures = rest(news, third["version"])
    assert set(figures) == {"learning", "schedules"}
    assert all("spec" not in figure for figure in figures.values())
    again = news.since(None)
    assert again is not None
    assert again["whole"]
    assert len(again["members"]) == 4
    assert all("spec" in figure for figure in again["figures"].values())


@pytest.mark.usefixtures("hasty")
def test_the_winning_lineage_comes_with_the_figures_so_that_nothing_waits_for_the_choice(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = Mock(wraps=live_run.handed_over)
    monkeypatch.setattr(live_run, "handed_over", choose)
    news, version = News(copied(folder / "deeper" / "smooth", tmp_path, 12)), None
    for length in (12, 16):
        run = Run.read(copied(folder / "deeper" / "smooth", tmp_path, length))
        choose.reset_mock()
        message = news.since(version)
        assert message is not None
        choose.assert_not_called()
        version, figures = rest(news, message["version"])
        choose.assert_called_once()
        won = figures["learning"]["data"]["won"]
        assert [(row["member"], row["round"]) for row in won] == [step[:2] for step in run.lineage]


def rest(news: News, version: int) -> tuple[int, dict[str, Any]]:
    """The figures that a page is told after all else, one by one, and the version it knows then."""
    figures: dict[str, Any] = {}
    more = True
    while more:
        message = news.since(version)
        assert message is not None
        assert not message["whole"]
        assert not message["members"]
        assert not message["log"]
        version, more = message["version"], message["more"]
        figures |= message["figures"]
    return version, figures


def test_what_could_not_be_read_when_the_file_changed_is_read_soon_after(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news_module, "file_stamp", lambda directory: (1,))  # As if it had had its last bytes before.
    news = News(copied(folder / "clumsy", tmp_path, 10))
    assert news.since(None) is not None
    copied(folder / "clumsy", tmp_path, 11)
    later = time.monotonic() + news_module.REREAD_SECONDS
    monkeypatch.setattr(news_module.time, "monotonic", lambda: later)
    message = news.since(None)
    assert message is not None
    assert message["facts"]["observations"] == "11"


@pytest.mark.usefixtures("hasty")
def test_warnings_are_those_of_the_history_and_go_when_they_no_longer_hold(tmp_path: Path) -> None:
    history = stuck_then_rising("lr")
    Store.create(tmp_path, history.space, {"mode": "max", "size": history.size, "rounds": None}).close()
    news, version, found = News(tmp_path), None, []
    for length in (20, 60, len(history)):
        with Store.open(tmp_path) as store:
            store.extend(history[len(store) : length])
        while (message := news.since(version)) is not None:
            version, warned = message["version"], message["warned"]
        assert warned == [one.text for one in advise(History.load(tmp_path))]
        found.append(["hardly" in text or "not got better" in text for text in warned])
    assert found == [[], [True], []]


def test_warnings_of_another_run_that_took_the_folder_are_its_own(tmp_path: Path) -> None:
    stuck_then_rising("lr").prefix(60).save(tmp_path)
    followed, warned = LiveRun(tmp_path), WarningsUpdate()
    followed.refresh()
    warned.make(followed, 1)
    assert len(warned.texts) == 1
    shutil.rmtree(tmp_path)
    warned.make(followed, 2)
    assert warned.texts == []
    play(tmp_path, rounds=2)
    warned.make(followed, 3)
    assert warned.texts == []


def test_rows_say_what_each_member_does(folder: Path, tmp_path: Path) -> None:
    run = copied(folder / "deeper" / "smooth", tmp_path / "run", 6)
    news = News(run).since(None)
    assert news is not None
    rows = {row[0]: dict(zip(MEMBER_COLUMNS, row, strict=True)) for row in news["members"]}
    assert [rows[m]["state"] for m in range(4)] == ["waiting", "waiting", "interrupted", "interrupted"]
    assert [rows[m]["round"] for m in range(4)] == [1, 1, 1, 1]
    assert all("lr " in row["hyperparameters"] for row in rows.values())
    whole = News(folder / "deeper" / "smooth").since(None)
    assert whole is not None
    assert {row[1] for row in whole["members"]} == {"done"}


def test_the_log_says_who_copied_whom_and_what_else_happened(folder: Path) -> None:
    news = News(folder / "clumsy").since(None)
    assert news is not None
    kinds = [entry["kind"] for entry in news["log"]]
    assert kinds[0] == "started"
    assert kinds[-1] == "finished"
    assert {"raised", "explored"} <= set(kinds)
    run = Run.read(folder / "clumsy")
    copies = {o.key: o.parent for o in run.history if o.parent is not None and o.parent[0] != o.member}
    told = {(e["member"], e["round"]): e["text"] for e in news["log"] if e["kind"] == "explored"}
    assert set(told) == {key for key in run.deciding if key[1] > 0}
    for key, parent in copies.items():
        assert told[key].startswith(f"copied member {parent[0]} and tries ")
        o, source = run.history.find(key), run.history.find(parent)
        assert o is not None
        assert source is not None
        assert (f"lr {setting(source.config['lr'])} → {setting(o.config['lr'])}" in told[key]) == (
            o.config["lr"] != source.config["lr"]
        )
    assert any("at random: " in text for text in told.values())


def test_a_long_log_is_told_by_its_end(tmp_path: Path) -> None:
    with Store.create(tmp_path, Population({"lr": (0.0, 1.0)}, PBT(), size=2).space, {"size": 2}) as store:
        store.write(
            events=[Event("raised", f"number {i}", 0, 0, time=float(i + 1)) for i in range(3 * MAX_LOG_ENTRIES)]
        )
        news = News(tmp_path)
        first = news.since(None)
        assert first is not None
        assert len(first["log"]) == MAX_LOG_ENTRIES
        assert first["log"][-1]["text"] == f"number {3 * MAX_LOG_ENTRIES - 1}"
        store.write(events=[Event("stopped", "", time=1e4)])
        second = news.since(first["version"])
        assert second is not None
        assert [entry["kind"] for entry in second["log"]] == ["stopped"]


@pytest.mark.usefixtures("hasty")
def test_figures_of_a_run_that_always_has_news_are_made_all_the_same(folder: Path, tmp_path: Path) -> None:
    news = News(copied(folder / "clumsy", tmp_path, 1))
    version, made = None, set()
    for length in range(2, 12):
        message = news.since(version)
        assert message is not None
        version = message["version"]
        made |= set(message["figures"])
        copied(folder / "clumsy", tmp_path, length)
    assert made == {"learning", "schedules"}


@pytest.mark.usefixtures("hasty")
def test_a_run_that_was_removed_and_one_that_took_its_place_are_noticed(folder: Path, tmp_path: Path) -> None:
    news = News(copied(folder / "clumsy", tmp_path / "run", 12))
    first = news.since(None)
    assert first is not None
    assert len(first["members"]) == 4
    version, _ = rest(news, first["version"])
    shutil.rmtree(tmp_path / "run")
    gone = news.since(version)
    assert gone is not None
    assert "holds no run" in gone["wrong"]
    copied(folder / "deeper" / "smooth", tmp_path / "run", 2)
    new = news.since(gone["version"])
    assert new is not None
    assert new["whole"]
    assert new["facts"]["observations"] == "2"
    assert len(new["log"]) == 0


def test_an_empty_run_is_one_that_has_not_begun(tmp_path: Path) -> None:
    Store.create(tmp_path, Population({"lr": (0.0, 1.0)}, PBT(), size=2).space, {"size": 2, "rounds": 3}).close()
    news = News(tmp_path)
    first = news.since(None)
    assert first is not None
    assert first["members"] == []
    assert first["told"] == "stopped: round 0 of 3, nothing completed yet"
    assert news.since(first["version"]) is None


def test_a_run_of_an_old_version_can_be_followed(tmp_path: Path) -> None:
    from popbandits.storage import schema

    population = Population({"lr": (0.0, 1.0)}, PBT(), size=2, rounds=2)
    for assignment in population.ask():
        population.tell(assignment, 1.0)
    population.history.save(tmp_path)
    with Store.open(tmp_path) as store:
        store.connection.execute("DROP TABLE checkpoint")
        schema.describe(store.connection, {"version": 2})
    news = News(tmp_path).since(None)
    assert news is not None
    assert [row[1] for row in news["members"]] == ["waiting", "waiting"]
    shown = member(tmp_path, 1)
    assert shown is not None
    assert not shown["training"]


# A member


def test_a_member_is_shown_with_its_configuration_parents_and_failures(folder: Path) -> None:
    run = Run.read(folder / "clumsy")
    for number in range(4):
        shown = member(folder / "clumsy", number)
        assert shown is not None
        assert not shown["training"]
        last = run.history.latest(number)
        assert last is not None
        assert [one["name"] for one in shown["config"]] == list(run.space.flatten(last.config))
        lineage = [(m, r) for m, first, end in shown["lineage"] for r in range(end, first - 1, -1)]
        assert lineage[::-1] == [o.key for o in run.history.lineage(last)]
        assert [one["round"] for one in shown["intervals"]] == list(range(9, -1, -1))
        for one in shown["intervals"]:
            o = run.history.find((number, one["round"]))
            assert o is not None
            assert (one["score"] is None) == o.failed
            assert ("it fell" in (one["said"] or "")) == o.failed
    assert member(folder / "clumsy", 4) is None


def test_a_member_in_training_is_shown_with_what_changed(folder: Path, tmp_path: Path) -> None:
    run = copied(folder / "clumsy", tmp_path, 4)
    with Store.open(run, readonly=True) as store:
        decided = {d.assignment.member: d.assignment for d in store.decisions() if d.assignment.round == 1}
    known = Run.read(run)
    changed, own = 0, 0
    for number, assignment in decided.items():
        shown = member(run, number)
        assert shown is not None
        assert shown["training"]
        assert shown["round"] == 1
        assert assignment.parent is not None
        assert shown["from"] == (None if assignment.parent[0] == number else assignment.parent[0])
        before = known.space.flatten(known.history[known.history.index_of(assignment.parent)].config)
        for one in shown["config"]:
            differs = before.get(one["name"]) != assignment.config[one["name"]]
            assert one["before"] == (setting(before.get(one["name"], "–")) if differs else None)
            changed += differs
        abandoned = known.history[known.history.index_of((number, 0))].config
        own += abandoned["lr"] not in (before["lr"], assignment.config["lr"])
    assert changed > 0
    assert own > 0  # Whoever copies is not compared with what it gives up.


def test_an_enormous_traceback_is_shown_in_part_and_served_whole(tmp_path: Path) -> None:
    enormous = "<script>x</script>\n" * 600_000
    with Store.create(tmp_path / "run", space_of_one(), {"size": 1, "rounds": 2}) as store:
        failed = Observation(0, 0, {"lr": 0.5}, status="failed")
        said = Event("raised", "ValueError: " + enormous, 0, 0, {"traceback": enormous})
        store.write([failed], [Decision(Population({"lr": (0.0, 1.0)}, PBT(), size=1).ask()[0], 0)], [said])
    shown = member(tmp_path / "run", 0)
    assert shown is not None
    assert "characters left out" in shown["intervals"][0]["said"]
    assert len(json.dumps(shown)) < 20_000
    assert len(json.dumps(News(tmp_path / "run").since(None))) < 20_000
    with served(tmp_path) as ask:
        whole = ask.get("/failure?run=run&member=0&round=0")
    assert whole.headers["content-type"].startswith("text/plain")
    assert whole.text.count("<script>x</script>") == 1_200_000


def space_of_one() -> Any:
    return Population({"lr": (0.0, 1.0)}, PBT(), size=1).space


# Which runs there are


def test_runs_are_found_below_the_folder_and_nowhere_else(folder: Path, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for place in (inside / "a", inside / "b" / "c", inside / ".hidden", outside):
        copied(folder / "clumsy", place, 1)
    copied(folder / "clumsy", inside / "a" / "checkpoints" / "kept", 1)
    (inside / "link").symlink_to(outside)
    (inside / "file").mkdir()
    (inside / "file" / RUN_FILE).symlink_to(outside / RUN_FILE)
    assert list(Runs(inside).find()) == ["a", "b/c"]
    assert list(Runs(inside / "a").find()) == ["."]
    with pytest.raises(ArgumentError, match=r"needs a folder that holds runs, or will, got .*nowhere"):
        Runs(tmp_path / "nowhere")


def test_a_run_that_cannot_be_read_is_listed_with_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / RUN_FILE).write_bytes(b"not a database, but long enough to be one" * 100)
    with served(tmp_path) as ask:
        ((name, state, reason, *_),) = ask.get("/api/runs").json()["rows"]
    assert (name, state) == ("bad", "unreadable")
    assert "is not a popbandits run" in reason


def test_a_stamp_changes_with_what_is_written(folder: Path, tmp_path: Path) -> None:
    assert file_stamp(tmp_path) == ()
    copied(folder / "clumsy", tmp_path, 1)
    before = file_stamp(tmp_path)
    copied(folder / "clumsy", tmp_path, 2)
    assert file_stamp(tmp_path) != before


# Who may see them


@pytest.fixture(scope="module")
def ask(folder: Path) -> Iterator[Asking]:
    with served(folder) as made:
        yield made


def test_pages_and_assets_are_served_with_strict_headers(ask: Asking) -> None:
    paths = ["/", "/runs", "/run?run=clumsy", "/api/runs", "/api/member?run=clumsy&member=0"]
    for path in [*paths, "/assets/style.css", "/assets/live.js", "/assets/runs.js", "/nothing"]:
        answer = ask.get(path)
        assert answer.status == (404 if path == "/nothing" else 200), path
        for name, value in HEADERS.items():
            assert answer.headers[name] == value


def test_the_bundle_of_vega_is_served(ask: Asking) -> None:
    script = ask.get("/assets/vega.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert len(script.text) > 500_000


def test_a_folder_that_is_a_run_leads_to_its_page(folder: Path) -> None:
    with served(folder / "clumsy") as ask:
        assert ask.get("/").headers["location"] == "run?run=."
        assert "<h1>clumsy</h1>" in ask.get("/run?run=.").text
        assert "Runs" in ask.get("/runs").text


@pytest.mark.parametrize(
    "name", ["..", "../clumsy", "/etc", "clumsy/../clumsy", "clumsy/", "deeper", "%2e%2e", "clumsy\0", "<script>"]
)
def test_no_name_leads_out_of_the_folder(name: str, ask: Asking) -> None:
    for path in ("/run", "/report", "/failure", "/api/news", "/api/member", "/api/curves"):
        answer = ask.get(path, params={"run": name, "member": "0", "round": "0"})
        assert answer.status == 404
        assert answer.text == "there is no such run in the watched folder\n"
    assert ask.get(f"/assets/{quote(name, safe='/.')}").status == 404
    assert ask.get("/assets/../server.py").status == 404


@pytest.mark.parametrize("member", ["", "-1", "1.5", "one", "9" * 30, "٣"])
def test_a_member_is_a_whole_number(member: str, ask: Asking) -> None:
    answer = ask.get("/api/member", params={"run": "clumsy", "member": member})
    assert answer.status == 400
    assert "member must be a whole number of at least 0" in answer.text


def test_what_is_not_there_is_said_to_be_missing(ask: Asking) -> None:
    assert ask.get("/api/member?run=clumsy&member=77").text == "the run has no member 77 yet\n"
    answer = ask.get("/failure?run=deeper/smooth&member=0&round=0")
    assert (answer.status, answer.text[:20]) == (404, "there is no record o")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_written(method: str, ask: Asking) -> None:
    assert ask.request(method, "/run?run=clumsy").status == 405
    assert ask.request(method, "/api/runs").status == 405


def test_hostile_names_are_text_in_the_page(folder: Path, tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "|")[:60]
    copied(folder / "clumsy", tmp_path / name, 1)
    with served(tmp_path) as ask:
        page = ask.get("/run", params={"run": name})
    assert page.status == 200
    assert "<script>document" not in page.text
    assert "&lt;|script&gt;" in page.text


def test_the_report_as_it_stands_is_served(ask: Asking) -> None:
    answer = ask.get("/report?run=deeper/smooth")
    assert answer.status == 200
    assert "What mattered" in answer.text
    assert answer.headers["content-security-policy"] == ""  # The page holds a policy of its own.
    assert "script-src 'sha256-" in answer.text


@pytest.mark.parametrize("host", ["example.org", "10.0.0.1:8765", "localhost.example.org", "", "0.0.0.0"])
def test_without_a_token_only_names_of_this_machine_are_answered(host: str, ask: Asking) -> None:
    answer = ask.get("/api/runs", host=host)
    assert answer.status == 421
    assert "clumsy" not in answer.text


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8765", "127.3.2.1:9"])
def test_names_of_this_machine_are_answered(host: str, ask: Asking) -> None:
    assert ask.get("/api/runs", host=host).status == 200


def test_with_a_token_nobody_sees_anything_without_it(folder: Path) -> None:
    with served(folder, "secret") as ask:
        for path in ("/", "/run?run=clumsy", "/api/runs", "/api/news?run=clumsy", "/assets/live.js", "/nothing"):
            for wrong in ({}, {"authorization": "Bearer wrong"}, {"cookie": f"popbandits-{ask.port}=wrong"}):
                answer = ask.get(path, **wrong)
                assert (answer.status, "clumsy" in answer.text) == (401, False)
        assert ask.get("/?token=wrong").status == 401
        assert ask.get("/?token=").status == 401
        assert ask.get("/api/runs", host="machine.example", authorization="Bearer secret").status == 200


def test_the_address_with_the_token_opens_the_pages_and_leaves_no_token_in_them(folder: Path) -> None:
    with served(folder, "secret") as ask:
        welcome = ask.get("/run?run=clumsy&token=secret")
        assert (welcome.status, welcome.headers["location"]) == (303, "/run?run=clumsy")
        cookie = welcome.headers["set-cookie"]
        assert "httponly" in cookie.lower()
        assert "samesite=strict" in cookie.lower()
        assert ask.get("/api/runs", cookie=cookie.partition(";")[0]).status == 200
        assert ask.get("/api/runs").status == 401


# The command


def watching(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "popbandits", "watch", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_command_says_where_and_ends_with_ctrl_c(folder: Path) -> None:
    process = watching(str(folder), "--port", "0")
    assert process.stdout is not None
    address = process.stdout.readline()
    assert address.startswith(f"Watching {folder} at http://localhost:")
    assert "token" not in address
    assert process.stdout.readline() == "Ctrl-C ends it.\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")


def test_a_host_that_others_reach_gets_a_token(folder: Path) -> None:
    process = watching(str(folder), "--host", "0.0.0.0", "--port", "0")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert len(address.partition("?token=")[2]) >= 32
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)


def test_a_folder_that_is_not_there_cannot_be_watched(folder: Path) -> None:
    process = watching(str(folder / "nowhere"))
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "watch needs a folder that holds runs" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "70000"], "port must be"),
        (["--host", "256.1.1.1"], "cannot listen at 256.1.1.1"),
        (["--host", "0.0.0.0", "--token", ""], "token must"),
    ],
)
def test_an_address_that_cannot_be_listened_at_is_refused(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["watch", str(folder), *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_taken_port_is_left_for_a_free_one_unless_it_was_asked_for(folder: Path) -> None:
    from popbandits.reports.live.server import open_socket

    with open_socket("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(ArgumentError, match=r"cannot listen at 127\.0\.0\.1, port"):
            open_socket("127.0.0.1", taken.getsockname()[1])
