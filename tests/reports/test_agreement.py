"""Whoever shows a run says the same of it: which interval is best, whom it descends from, and what each one changed."""

import csv
import io
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from popbandits import PBT, Population
from popbandits.basics.wording import number
from popbandits.history import Assignment, History, Key, Mode
from popbandits.reports.export import export
from popbandits.reports.figures.learning import learning, metric_values
from popbandits.reports.figures.schedules import schedules
from popbandits.reports.figures.winner import winner
from popbandits.reports.live.live_run import LiveRun
from popbandits.reports.live.member import member
from popbandits.reports.live.news import MEMBER_COLUMNS, News
from popbandits.reports.run import Run
from popbandits.reports.single import interval_table
from popbandits.reports.status import status
from popbandits.reports.words import summary
from popbandits.run.result import Result
from popbandits.selection.choice import choose_by_scores
from popbandits.storage import Store
from popbandits.views.progress import Progress
from tests.storage.test_handed_over import noisy

SIZE, ROUNDS = 4, 9
SEEDS = {"rounds": 2, "own pace": 14}
"""With these a run has all that readers could differ about; the fixture checks that."""


def population(mode: Mode, synchronous: bool, history: Any = ()) -> Population:
    return Population(
        {"lr": (0.0, 1.0), "act": ["relu", "tanh"]},
        PBT(),
        size=SIZE,
        rounds=ROUNDS,
        seed=3,
        mode=mode,
        synchronous=synchronous,
        history=history,
    )


@dataclass
class Played:
    """A run's folder, its history as it was told, and what its readers make of it."""

    directory: Path
    mode: Mode
    synchronous: bool
    history: History

    @cached_property
    def report(self) -> Run:
        """What the report reads."""
        return Run.read(self.directory)

    @cached_property
    def followed(self) -> LiveRun:
        """What the live page draws from."""
        made = LiveRun(self.directory)
        made.refresh()
        return made

    @cached_property
    def told(self) -> Any:
        """All that a page is told of a run, figures included."""
        news = News(self.directory)
        said = news.since(None)
        assert said is not None
        whole, figures = dict(said), dict(said["figures"])
        while said is not None:
            figures |= said["figures"]
            said = news.since(said["version"])
        return whole | {"figures": figures}

    @cached_property
    def tables(self) -> list[list[dict[str, Any]]]:
        """Every table of intervals: the report's, those of both kinds of export, and that for pandas."""
        columns, rows, _ = interval_table(self.report)
        report = [dict(zip(columns, row, strict=True)) for row in rows]
        frame = [row | {"change": _known(row["change"])} for row in self.history.to_pandas().to_dict("records")]
        return [report, exported(self.directory, "csv"), exported(self.directory, "json"), frame]

    @cached_property
    def watched(self) -> Progress:
        """What the terminal draws from, told of one interval after the other."""
        progress = Progress()
        progress.opened(population(self.mode, self.synchronous), self.directory)
        for observation in self.history:
            progress.told(observation)
        return progress


def exported(directory: Path, kind: Literal["csv", "json"]) -> list[dict[str, Any]]:
    file = io.BytesIO()
    export(directory, kind, file)
    if kind == "json":
        rows: list[dict[str, Any]] = json.loads(file.getvalue())
        return rows
    return [
        {
            "member": int(row["member"]),
            "round": int(row["round"]),
            "winning": row["winning"] == "true",
            "change": float(row["change"]) if row["change"] else None,
        }
        for row in csv.DictReader(io.StringIO(file.getvalue().decode()))
    ]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


@pytest.fixture(scope="module", params=["max", "min"])
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


@pytest.fixture(scope="module", params=["rounds", "own pace"])
def played(mode: Mode, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A run with budgets that differ, equal scores, failures and lost checkpoints."""
    synchronous, directory = request.param == "rounds", tmp_path_factory.mktemp("run")
    made, rng = population(mode, synchronous), np.random.default_rng(SEEDS[request.param])
    about = {"mode": mode, "size": SIZE, "rounds": ROUNDS, "seed": 3}
    waiting: list[Assignment] = []
    with Store.create(directory, made.space, about) as store:
        while not made.done:
            waiting += made.ask()
            store.write(decisions=made.decided)
            assignment = waiting.pop(rng.integers(len(waiting)))
            fate = "lost" if rng.random() < 0.08 and assignment.parent else "failed" if rng.random() < 0.1 else ""
            before = made.history.find(assignment.parent) if assignment.parent else None
            gain = int(rng.integers(-1, 3)) * (1.0 if mode == "max" else -1.0)
            score = (0.0 if before is None else before.score) + gain
            steps = float(rng.choice([1000, 2500, 4000]))
            made.tell(
                assignment,
                None if fate else score,
                steps=steps,
                seconds=60.0 + assignment.member,
                metrics={"loss": {"policy": 2 * score + assignment.member}, "level": "hard", "even": not gain % 2},
                lost=fate == "lost",
            )
            store.write([made.history[-1]])
    history = made.history
    assert history.best is not None
    assert len({o.member for o in history if o.score == history.best.score}) > 1, "equal scores"
    assert {o.status for o in history} == {"completed", "failed", "lost"}
    assert len({o.steps for o in history.lineage()}) > 1, "budgets differ"
    assert len({o.member for o in history.lineage()}) > 1, "somebody was copied"
    return Played(directory, mode, synchronous, history)


# The best


def best(history: History) -> tuple[Key, float]:
    """By the rule in words: the best score; of equals the last round, and of these the last member."""
    done = [o for o in history if not o.failed]
    score = (max if history.mode == "max" else min)(o.score for o in done)
    last = max(o.round for o in done if o.score == score)
    return (max(o.member for o in done if (o.score, o.round) == (score, last)), last), score


def test_everybody_has_the_same_best_interval(played: Played) -> None:
    key, score = best(played.history)
    now = status(played.directory)
    assert (now.best_key, now.best) == (key, score)
    result = Result(played.directory)
    assert (result.best.key, result.best.score) == (key, score)
    assert result.checkpoint.name == f"member-{key[0]}-round-{key[1]}"
    assert played.watched.best is not None
    assert played.watched.best.key == key
    assert played.followed.lineage[-1] == played.report.lineage[-1] == (*key, score)
    assert played.told["facts"]["best score"] == number(score)
    said = f"The best score is {number(score)} (member {key[0]}, round {key[1]})"
    assert any(sentence.startswith(said) for sentence in summary(played.report))


def test_the_best_is_the_same_at_every_moment(played: Played, tmp_path: Path) -> None:
    whole = played.history
    about = {"mode": played.mode, "size": SIZE, "rounds": ROUNDS}
    following, progress = LiveRun(tmp_path), Progress()
    progress.opened(population(played.mode, played.synchronous), tmp_path)
    with Store.create(tmp_path, whole.space, about) as store:
        for count, observation in enumerate(whole, 1):
            store.write([observation])
            progress.told(observation)
            following.refresh()
            then = whole.prefix(count)
            key = None if then.best is None else then.best.key
            assert status(tmp_path).best_key == key
            assert (None if progress.best is None else progress.best.key) == key
            choice = choose_by_scores(then)
            line = [] if choice is None else then.lineage(choice.observation)
            assert [step[:2] for step in following.lineage] == [o.key for o in line]


def test_the_member_that_is_best_in_the_end_leads_the_terminals_table(played: Played) -> None:
    final = played.report.final
    assert final is not None
    assert played.watched.ranking()[0] == final.member


def test_of_members_with_equal_scores_report_and_terminal_put_the_same_one_first(mode: Mode, tmp_path: Path) -> None:
    made = population(mode, True)
    for _ in range(ROUNDS):
        for assignment in made.ask():
            made.tell(assignment, 1.0)
    made.history.save(tmp_path)
    equal = Played(tmp_path, mode, True, made.history)
    final = equal.report.final
    assert final is not None
    assert final.key == status(tmp_path).best_key == (SIZE - 1, ROUNDS - 1)
    assert equal.watched.ranking()[0] == final.member


# Lineages


def lineage(history: History, key: Key) -> list[Key]:
    """By hand, the first ancestor first."""
    parents = {o.key: o.parent for o in history}
    line = [key]
    while (parent := parents[line[0]]) is not None:
        line.insert(0, parent)
    return line


def test_everybody_has_the_same_winning_lineage(played: Played) -> None:
    line = lineage(played.history, best(played.history)[0])
    assert [step[:2] for step in played.report.lineage] == line
    assert [step[:2] for step in played.followed.lineage] == line
    assert [(row["member"], row["round"]) for row in learning(played.report).data["won"]] == line
    page = played.told["figures"]
    assert [(row["member"], row["round"]) for row in page["learning"]["data"]["won"]] == line
    drawn = page["schedules"]["data"]["schedule0_0"]
    assert {(row["member"], row["round"]) for row in drawn if row["kind"] == "winning lineage"} == set(line)
    for rows in played.tables:
        assert {(row["member"], row["round"]) for row in rows if row["winning"]} == set(line)


@pytest.mark.parametrize("mode", ["max", "min"])
def test_everybody_shows_the_lineage_handed_over_and_not_that_of_the_luckiest_score(mode: Mode, tmp_path: Path) -> None:
    history = noisy(mode)
    history.save(tmp_path)
    run, followed, result = Run.read(tmp_path), LiveRun(tmp_path), Result(tmp_path)
    followed.refresh()
    assert run.choice == result.choice
    line = lineage(history, result.choice.observation.key)
    assert line[-1] != best(history)[0]
    assert [step[:2] for step in run.lineage] == [step[:2] for step in followed.lineage] == line
    shown = winner(run, None)
    assert [(row["member"], row["round"]) for row in shown.data["winner"]] == line
    assert shown.caption.startswith(f"The run hands over {result.choice}. Its lineage ")
    columns, rows, _ = interval_table(run)
    tables = [[dict(zip(columns, row, strict=True)) for row in rows], result.to_pandas().to_dict("records")]
    for table in (*tables, exported(tmp_path, "csv"), exported(tmp_path, "json")):
        assert {(row["member"], row["round"]) for row in table if row["winning"]} == set(line)
    assert any(sentence == f"It hands over {result.choice}." for sentence in summary(run))
    assert News(tmp_path).since(None)["facts"]["best score"] == number(best(history)[1])  # type: ignore[index]


def test_a_members_page_has_the_lineage_of_the_report(played: Played) -> None:
    for one in range(SIZE):
        shown = member(played.directory, one)
        assert shown is not None
        line = lineage(played.history, (one, ROUNDS - 1))
        spans = [(who, round_) for who, first, last in shown["lineage"] for round_ in range(last, first - 1, -1)]
        assert set(line) <= set(spans)
        ends = [(who, last) for who, _, last in shown["lineage"]]
        assert ends == [key for key, then in zip(line[::-1], [None, *line[::-1]], strict=False) if not _same(key, then)]


def _same(key: Key, then: Key | None) -> bool:
    return then is not None and key[0] == then[0]


# Axes


def test_report_and_page_add_up_steps_and_seconds_along_a_lineage(played: Played) -> None:
    told = {o.key: o for o in played.history}
    for figure in (learning(played.report), learning(played.followed)):
        assert list(figure.axes["x"]) == ["steps", "time"]  # type: ignore[index]
        assert figure.axes["x"]["time"]["encoding"]["title"] == "training time along the lineage, min"  # type: ignore[index]
    page = played.told["figures"]["learning"]
    for data in (learning(played.report).data, page["data"]):
        assert len(data["members"]) == sum(not o.failed for o in played.history)
        for row in [*data["members"], *data["won"]]:
            line = [told[key] for key in lineage(played.history, (row["member"], row["round"]))]
            assert row["steps"] == sum(o.steps or 0 for o in line)
            assert row["time"] == pytest.approx(sum(o.seconds or 0 for o in line) / 60, rel=1e-5)


def test_report_and_page_show_the_same_metric_of_every_interval_and_round(played: Played) -> None:
    news, version = News(played.directory), None
    while (message := news.since(version)) is not None:
        version = message["version"]
    drawn = news.curves("loss.policy")
    assert drawn is not None
    assert drawn["data"]["won"]
    assert list(drawn["axes"]["y"]) == list(learning(played.report).axes["y"]) == ["even", "loss.policy"]  # type: ignore[index]
    report = learning(played.report).data, metric_values(played.report, "loss.policy")
    told = {o.key: o.metrics["loss"]["policy"] for o in played.history}
    for data, values in (report, (drawn["data"], drawn["values"])):
        for source in ("members", "won"):
            shown = {(row["member"], row["round"]): v for row, v in zip(data[source], values[source], strict=True)}
            assert shown == pytest.approx({key: told[key] for key in shown}, rel=1e-4)
            assert len(shown) == len(data[source])
        for row, value in zip(data["summary"], values["summary"], strict=True):
            done = [o for o in played.history if o.round == row["round"] and not o.failed]
            if row["curve"].startswith("best"):
                best_one = max(done, key=lambda o: ((1 if played.mode == "max" else -1) * o.score, o.member))
                assert value == pytest.approx(told[best_one.key], rel=1e-4)
            else:
                every = [told[o.key] for o in played.history if o.round == row["round"]]
                assert value == pytest.approx(float(np.mean(every)), rel=1e-4)


# Changes


def changes(rows: Iterable[dict[str, Any]]) -> dict[Key, float]:
    """The changes that a table or a figure shows, where there is one."""
    return {(row["member"], row["round"]): row["change"] for row in rows if row.get("change") is not None}


def test_everybody_shows_the_same_change_of_an_interval(played: Played) -> None:
    scores = {o.key: o.score for o in played.history}
    # The score less that of its parent, as they were told: whatever the budget, and whichever way is better.
    expected = {o.key: o.score - scores[o.parent] for o in played.history if o.parent is not None and not o.failed}
    for rows in played.tables:
        assert changes(rows) == pytest.approx(expected)
    for run in (played.report, played.followed):
        assert changes(schedules({"": [run]}).data["schedule0_0"]) == pytest.approx(expected)
    assert changes(played.told["figures"]["schedules"]["data"]["schedule0_0"]) == pytest.approx(expected)
    for one in range(SIZE):
        shown = member(played.directory, one)
        assert shown is not None
        own = {(one, row["round"]): row["change"] for row in shown["intervals"] if row["change"] is not None}
        assert own == pytest.approx({key: change for key, change in expected.items() if key[0] == one})


def test_page_and_terminal_show_the_same_change_of_each_members_last_interval(played: Played) -> None:
    rows = [dict(zip(MEMBER_COLUMNS, row, strict=True)) for row in played.told["members"]]
    shown = {row["member"]: row["change"] for row in rows}
    seen = {one.number: _known(one.last.change) for one in played.watched.members if one.last is not None}
    assert shown == pytest.approx(seen)
    assert len(seen) == SIZE
