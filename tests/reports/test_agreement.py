"""Whoever shows a run says the same of it: which interval is best, whom it descends from, and what each one changed."""

import csv
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from popbandits import PBT, Population
from popbandits.history import Assignment, History, Key, Mode
from popbandits.reports.export import export
from popbandits.reports.figures.learning import learning
from popbandits.reports.figures.schedules import schedules
from popbandits.reports.live.follow import Followed
from popbandits.reports.live.member import member
from popbandits.reports.live.news import MEMBERS, News
from popbandits.reports.run import Run
from popbandits.reports.single import intervals
from popbandits.reports.status import status
from popbandits.reports.words import summary
from popbandits.run.result import Result
from popbandits.storage import Store
from popbandits.views.progress import Progress
from popbandits.wording import number

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


@dataclass(frozen=True)
class Played:
    """A run's folder, and its history as it was told."""

    directory: Path
    mode: Mode
    synchronous: bool
    history: History


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
            made.tell(assignment, None if fate else score, steps=steps, seconds=1.0, lost=fate == "lost")
            store.write([made.history[-1]])
    history = made.history
    assert history.best is not None
    assert len({o.member for o in history if o.score == history.best.score}) > 1, "equal scores"
    assert {o.status for o in history} == {"completed", "failed", "lost"}
    assert len({o.steps for o in history.lineage()}) > 1, "budgets differ"
    assert len({o.member for o in history.lineage()}) > 1, "somebody was copied"
    return Played(directory, mode, synchronous, history)


def followed(run: Played) -> Followed:
    made = Followed(run.directory)
    made.refresh()
    return made


def told(run: Played) -> Any:
    """All that a page is told of a run, figures included."""
    news = News(run.directory)
    said = news.since(None)
    assert said is not None
    whole, figures = dict(said), dict(said["figures"])
    while said is not None:
        figures |= said["figures"]
        said = news.since(said["version"])
    return whole | {"figures": figures}


def exported(run: Played, kind: Literal["csv", "json"]) -> list[dict[str, Any]]:
    file = io.BytesIO()
    export(run.directory, kind, file)
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


def watched(run: Played) -> Progress:
    """What the terminal draws from, told of one interval after the other."""
    progress = Progress()
    progress.opened(population(run.mode, run.synchronous), run.directory)
    for observation in run.history:
        progress.told(observation)
    return progress


def table(run: Played) -> list[dict[str, Any]]:
    """The report's table of intervals."""
    columns, rows, _ = intervals(Run.read(run.directory))
    return [dict(zip(columns, row, strict=True)) for row in rows]


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
    progress = watched(played)
    assert progress.best is not None
    assert progress.best.key == key
    assert followed(played).lineage[-1] == Run.read(played.directory).lineage[-1] == (*key, score)
    assert told(played)["facts"]["best score"] == number(score)
    said = f"The best score is {number(score)} (member {key[0]}, round {key[1]})"
    assert any(sentence.startswith(said) for sentence in summary(Run.read(played.directory)))


def test_the_best_is_the_same_at_every_moment(played: Played, tmp_path: Path) -> None:
    whole = played.history
    about = {"mode": played.mode, "size": SIZE, "rounds": ROUNDS}
    following, progress = Followed(tmp_path), Progress()
    progress.opened(population(played.mode, played.synchronous), tmp_path)
    with Store.create(tmp_path, whole.space, about) as store:
        for count, observation in enumerate(whole, 1):
            store.write([observation])
            progress.told(observation)
            following.refresh()
            then = whole.until(count)
            key = None if then.best is None else then.best.key
            assert status(tmp_path).best_key == key
            assert (None if progress.best is None else progress.best.key) == key
            assert [step[:2] for step in following.lineage] == [o.key for o in then.lineage()]


def test_the_member_that_is_best_in_the_end_leads_the_terminals_table(played: Played) -> None:
    final = Run.read(played.directory).final
    assert final is not None
    assert watched(played).ranking()[0] == final.member


def test_of_members_with_equal_scores_report_and_terminal_put_the_same_one_first(mode: Mode, tmp_path: Path) -> None:
    made = population(mode, True)
    for _ in range(ROUNDS):
        for assignment in made.ask():
            made.tell(assignment, 1.0)
    made.history.save(tmp_path)
    equal = Played(tmp_path, mode, True, made.history)
    final = Run.read(tmp_path).final
    assert final is not None
    assert final.key == status(tmp_path).best_key == (SIZE - 1, ROUNDS - 1)
    assert watched(equal).ranking()[0] == final.member


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
    run = Run.read(played.directory)
    assert [step[:2] for step in run.lineage] == line
    assert [step[:2] for step in followed(played).lineage] == line
    assert [(row["member"], row["round"]) for row in learning(run).data["won"]] == line
    page = told(played)["figures"]
    assert [(row["member"], row["round"]) for row in page["learning"]["data"]["won"]] == line
    drawn = page["schedules"]["data"]["schedule0_0"]
    assert {(row["member"], row["round"]) for row in drawn if row["kind"] == "winning lineage"} == set(line)
    tables = (table(played), exported(played, "csv"), exported(played, "json"), frame(played))
    for rows in tables:
        assert {(row["member"], row["round"]) for row in rows if row["winning"]} == set(line)


def frame(run: Played) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = History.load(run.directory).to_pandas().to_dict("records")
    return [row | {"change": _known(row["change"])} for row in rows]


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


# Changes


def changes(rows: list[dict[str, Any]]) -> dict[Key, float]:
    """The changes that a table or a figure shows, where there is one."""
    return {(row["member"], row["round"]): row["change"] for row in rows if row.get("change") is not None}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def test_everybody_shows_the_same_change_of_an_interval(played: Played) -> None:
    scores = {o.key: o.score for o in played.history}
    # The score less that of its parent, as they were told: whatever the budget, and whichever way is better.
    expected = {o.key: o.score - scores[o.parent] for o in played.history if o.parent is not None and not o.failed}
    for rows in (table(played), exported(played, "csv"), exported(played, "json"), frame(played)):
        assert changes(rows) == pytest.approx(expected)
    for run in (Run.read(played.directory), followed(played)):
        assert changes(schedules({"": [run]}).data["schedule0_0"]) == pytest.approx(expected)
    assert changes(told(played)["figures"]["schedules"]["data"]["schedule0_0"]) == pytest.approx(expected)
    for one in range(SIZE):
        shown = member(played.directory, one)
        assert shown is not None
        own = {(one, row["round"]): row["change"] for row in shown["intervals"] if row["change"] is not None}
        assert own == pytest.approx({key: change for key, change in expected.items() if key[0] == one})


def test_page_and_terminal_show_the_same_change_of_each_members_last_interval(played: Played) -> None:
    rows = [dict(zip(MEMBERS, row, strict=True)) for row in told(played)["members"]]
    shown = {row["member"]: row["change"] for row in rows}
    seen = {one.number: _known(one.last.change) for one in watched(played).members if one.last is not None}
    assert shown == pytest.approx(seen)
    assert len(seen) == SIZE
