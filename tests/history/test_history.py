"""What is kept of a run, and the arrays that decisions are made from."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from popbandits.history import History, Observation
from popbandits.history import history as module
from popbandits.history.memory import Observations

SPACE = {"x": (0.0, 1.0), "h": ["a", "b"]}
A, B = {"x": 0.25, "h": "a"}, {"x": 0.75, "h": "b"}
FAILED: Any = {"status": "failed"}


def observed(member: int, round_: int, config: Any = A, **known: Any) -> Observation:
    return Observation(member, round_, config, **{"score": 1.0} | known if "status" not in known else known)


def run(rounds: int, size: int = 3, gain: Any = lambda member, round_: 1.0, **known: Any) -> History:
    """Members that go on by themselves, from a score of 0; configurations change every round."""
    history = History(SPACE, size=size, **known)
    for round_ in range(rounds):
        for member in range(size):
            last = history.latest(member)
            before = 0.0 if last is None else last.score
            config = {"x": (7 * round_ + member) % 11 / 10, "h": "ab"[(round_ + member) % 2]}
            parent = None if last is None else last.key
            history.append(Observation(member, round_, config, parent, before, before + gain(member, round_)))
    return history


# What is appended


def test_a_history_is_a_sequence_in_the_order_of_telling() -> None:
    told = [observed(1, 0, A), observed(0, 0, B), observed(1, 1, B)]
    history = History(SPACE, told)
    assert list(history) == told
    assert (history[0], history[-1], history[1:]) == (told[0], told[2], told[1:])
    assert list(reversed(history)) == told[::-1]
    assert told[1] in history
    with pytest.raises(IndexError):
        history[3]


def test_the_change_after_an_exploit_is_from_the_parents_score() -> None:
    history = History(SPACE, [observed(0, 0, score=1.0), observed(1, 0, score=5.0)])
    history.append(observed(0, 1, B, parent=(1, 0), score_before=5.0, score=5.5))
    assert history[-1].change == 0.5
    assert history.recent().change[-1] == 0.5


@pytest.mark.parametrize("mode", ["max", "min"])
def test_failures_are_kept_and_count_as_the_lower_quartile_for_models_and_as_nothing_for_the_bandit(mode: Any) -> None:
    sign = 1.0 if mode == "max" else -1.0
    history = History(SPACE, mode=mode)
    for member, change in enumerate([2.0, -1.0, None, 3.0]):
        known = FAILED if change is None else {"score": sign * (10 + change)}
        history.append(observed(member, 0, score_before=sign * 10.0, **known))
    rows = history.recent()
    assert len(history) == len(rows) == 4
    assert rows.failed.tolist() == [False, False, True, False]
    assert np.isnan(rows.change[2])
    assert rows.targets().tolist() == [2.0, -1.0, 0.5, 3.0]
    assert rows.gains().tolist() == [0.75, 0.0, 0.0, 1.0]


def test_one_collapse_does_not_make_all_other_gains_equal() -> None:
    changes = [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, -1000.0]
    rows = History(SPACE, [observed(i, 0, score_before=0.0, score=s) for i, s in enumerate(changes)]).recent()
    gains = rows.gains()
    assert gains[-1] == 0.0
    assert np.ptp(gains[:8]) > 0.25
    assert np.ptp(rows.gains(fenced=False)[:8]) < 0.01


def test_a_leap_counts_in_full_and_falls_that_are_usual_too() -> None:
    for changes in ([1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 1000.0], [1.0, 2.0, 3.0, 4.0, -1.0], [0.0] * 6 + [-5.0, 1.0]):
        rows = History(SPACE, [observed(i, 0, score_before=0.0, score=s) for i, s in enumerate(changes)]).recent()
        assert rows.gains().tolist() == rows.gains(fenced=False).tolist()


@pytest.mark.parametrize("scores", [[], [3.0], [3.0, 3.0], [1e-40, 1e-40], [0.0, 0.0]])
def test_gains_are_zero_where_nothing_tells_them_apart(scores: list[float]) -> None:
    history = History(SPACE, [observed(i, 0, score_before=0.0, score=s) for i, s in enumerate(scores)])
    assert history.recent().gains().tolist() == [0.0] * len(scores)


def test_gains_are_zero_where_everything_failed() -> None:
    rows = History(SPACE, [observed(i, 0, **FAILED) for i in range(3)]).recent()
    assert rows.gains().tolist() == rows.targets().tolist() == [0.0, 0.0, 0.0]


scores = st.one_of(st.none(), st.floats(-1e100, 1e100))


@settings(deadline=None)
@given(st.lists(st.tuples(scores, scores), max_size=20), st.sampled_from(["max", "min"]))
def test_gains_are_in_the_unit_interval_whatever_was_told(told: list[Any], mode: Any) -> None:
    history = History({"x": (0.0, 1.0)}, mode=mode)
    for member, (before, score) in enumerate(told):
        known = {"score": score} if score is not None else FAILED
        history.append(observed(member, 0, {"x": 0.5}, score_before=math.nan if before is None else before, **known))
    gains = history.recent().gains()
    assert ((gains >= 0.0) & (gains <= 1.0)).all()


@settings(deadline=None)
@given(st.lists(st.tuples(scores, scores), max_size=20))
def test_min_mode_mirrors_max_mode_exactly(told: list[Any]) -> None:
    up, down = (History({"x": (0.0, 1.0)}, mode=mode) for mode in ("max", "min"))  # type: ignore[arg-type]
    for member, (before, score) in enumerate(told):
        for history in (up, down):
            known = {"score": history.sign * score} if score is not None else FAILED
            start = math.nan if before is None else history.sign * before
            history.append(observed(member, 0, {"x": 0.5}, score_before=start, **known))
    for name in ("change", "before", "failed", "guessed"):
        assert np.array_equal(getattr(up.recent(), name), getattr(down.recent(), name), equal_nan=True)
    assert np.array_equal(up.recent().gains(), down.recent().gains())
    assert (up.best is None) == (down.best is None)
    assert up.best is None or down.best is None or up.best.key == down.best.key


def test_where_budgets_differ_the_change_is_per_unit_of_budget() -> None:
    history = History(SPACE)
    for member, steps in enumerate([100, 200, 400]):
        history.append(observed(member, 0, score_before=0.0, score=float(steps), steps=steps))
    assert history.recent().change.tolist() == [200.0, 200.0, 200.0], "the usual budget is the median"


@pytest.mark.parametrize("steps", [[100, 100, 100], [100, None, 100], [None, None, None]])
def test_where_budgets_are_equal_or_unknown_the_change_is_as_it_is(steps: list[Any]) -> None:
    told = [observed(i, 0, score_before=0.0, score=8.0, steps=each) for i, each in enumerate(steps)]
    assert History(SPACE, told).recent().change.tolist() == [8.0, 8.0, 8.0]


def test_an_interval_without_a_budget_counts_as_the_usual_one_and_spoils_no_other() -> None:
    told = [observed(i, 0, score_before=0.0, score=8.0, steps=each) for i, each in enumerate([100, None, 200, 400])]
    assert History(SPACE, told).recent().change.tolist() == [16.0, 8.0, 8.0, 4.0]


def test_the_clock_of_the_models_is_the_training_of_the_weights() -> None:
    """Member 1 has done one round only when it loads weights that three rounds went into."""
    history = History(SPACE, [observed(0, 0, score=1.0), observed(1, 0, score=0.0)])
    for round_ in (1, 2):
        history.append(observed(0, round_, parent=(0, round_ - 1), score_before=1.0, score=1.0))
    history.append(observed(1, 1, parent=(0, 2), score_before=1.0, score=2.0))
    history.append(observed(0, 3, score=1.0))
    rows = history.recent()
    clock = {(m, r): s for m, r, s in zip(rows.member, rows.round, rows.stage, strict=True)}
    assert clock == {(0, 0): 0, (1, 0): 0, (0, 1): 1, (1, 1): 3, (0, 2): 2, (0, 3): 0}
    assert history.stage((1, 1)) == 4


def test_the_best_of_equals_does_not_depend_on_the_order_of_telling() -> None:
    told = [observed(member, 0, score=1.0) for member in range(3)]
    assert History(SPACE, told).best == History(SPACE, told[::-1]).best == told[2]
    assert History(SPACE, told) == History(SPACE, told[::-1])
    assert History(SPACE, told) != History(SPACE, told[:2])


def test_a_schedule_that_a_user_changes_leaves_the_history_alone() -> None:
    history = History(SPACE, [observed(0, 0, A, score=1.0)])
    history.schedule()[0].clear()
    assert history[0].config == A


def test_observations_can_be_put_into_a_set() -> None:
    assert len({observed(0, 0, score=1.0), observed(0, 0, score=1.0), observed(1, 0, score=1.0)}) == 2


# Fresh starts


def test_a_fresh_start_gains_from_what_is_guessed_of_an_untrained_member() -> None:
    """Members 0 and 1 keep their configuration and gain 2 in round 1, so they gained 2 in round 0 as well."""
    history = History(SPACE, [observed(0, 0, A, score=12.0), observed(1, 0, B, score=13.0)])
    history.append(observed(0, 1, A, parent=(0, 0), score_before=12.0, score=14.0))
    history.append(observed(1, 1, B, parent=(1, 0), score_before=13.0, score=15.0))
    rows = history.recent()
    assert rows.guessed.tolist() == [True, True, False, False]
    assert rows.change.tolist() == [1.5, 2.5, 2.0, 2.0], "an untrained member would score 10.5"


def test_the_guess_does_not_depend_on_the_order_of_telling() -> None:
    rng = np.random.default_rng(0)
    first, second = 10.0 + rng.random(9), rng.random(9)
    changes = []
    for order in (np.arange(9), np.arange(9)[::-1], rng.permutation(9)):
        history = History(SPACE, [observed(int(m), 0, score=first[m]) for m in order], size=9)
        for m in order:
            before = float(first[m])
            history.append(observed(int(m), 1, parent=(int(m), 0), score_before=before, score=before + second[m]))
        changes.append(history.recent().change.tolist())
    assert changes[0] == changes[1] == changes[2], "to the last bit: a model amplifies it"


# Views


def test_an_earlier_state_is_what_was_known_then() -> None:
    history = run(4, gain=lambda member, round_: float(member - round_))
    for length in (0, 1, 5, 12, 99):
        view = history.prefix(length)
        fresh = History(SPACE, list(history)[:length], size=3)
        assert view == fresh
        assert len(view) == min(length, 12)
        assert view.best == fresh.best
        for member in range(3):
            assert view.latest(member) == fresh.latest(member)
            assert view.finished(member) == fresh.finished(member)
        assert view.find((2, 3)) == fresh.find((2, 3))
        for window in (None, 4, 7):
            for one, other in (
                (view.recent(window), fresh.recent(window)),
                (view.informative(window), fresh.informative(window)),
            ):
                assert np.array_equal(one.points.x, other.points.x)
                assert np.array_equal(one.change, other.change)


def test_an_earlier_state_stays_what_it_was_while_the_history_grows() -> None:
    history = run(2)
    view = history.prefix(4)
    before = list(view), view.recent().change.tolist()
    for round_ in range(2, 50):
        for member in range(3):
            history.append(observed(member, round_, parent=(member, round_ - 1), score_before=1.0))
    assert (list(view), view.recent().change.tolist()) == before
    assert len(history) == 150


def test_what_is_not_there_is_none() -> None:
    history = History(SPACE, [observed(0, 0)])
    assert history.find((0, 1)) is history.find((1, 0)) is history.find((0, -1)) is None
    assert history.latest(1) is None
    assert history.finished(1) == 0


def test_the_last_completed_round_is_found_behind_failures() -> None:
    history = History(SPACE, [observed(0, 0), observed(0, 1), observed(0, 2, **FAILED), observed(1, 0, **FAILED)])
    assert history.last_completed(0) == history[1]
    assert history.last_completed(1) is None
    assert history.latest(0) == history[2]


def test_a_history_survives_pickle() -> None:
    history = run(3)
    again = pickle.loads(pickle.dumps(history))
    assert again == history
    assert again.recent().change.tolist() == history.recent().change.tolist()


def test_histories_are_equal_by_mode_and_observations() -> None:
    assert run(2) == run(2)
    assert run(2) != run(3)
    assert History(SPACE) != History(SPACE, mode="min")
    assert History(SPACE) != []


# The best, and where it came from


def test_the_best_is_the_best_completed_score_and_the_latest_of_equals() -> None:
    told = [observed(0, 0, score=2.0), observed(1, 0, score=3.0), observed(2, 0, **FAILED), observed(0, 1, score=3.0)]
    assert History(SPACE, told).best == told[3]
    assert History(SPACE, told, mode="min").best == told[0]
    assert History(SPACE).best is None
    assert History(SPACE, [observed(0, 0, **FAILED)]).best is None


def test_lineage_and_schedule_follow_the_weights() -> None:
    """By hand: member 1 copies member 0 after round 0, member 2 copies member 1 after round 1 and wins."""
    c = [{"x": i / 10, "h": "a"} for i in range(9)]
    history = History(SPACE, [observed(m, 0, c[m], score=s) for m, s in enumerate([5.0, 1.0, 2.0])])
    for member, parent, config, score in ((0, (0, 0), c[0], 5.5), (1, (0, 0), c[4], 7.0), (2, (2, 0), c[2], 3.0)):
        history.append(observed(member, 1, config, parent=parent, score=score))
    for member, parent, config, score in ((0, (0, 1), c[0], 6.0), (1, (1, 1), c[4], 7.5), (2, (1, 1), c[8], 9.0)):
        history.append(observed(member, 2, config, parent=parent, score=score))
    assert [o.key for o in history.lineage()] == [(0, 0), (1, 1), (2, 2)]
    assert history.schedule() == [c[0], c[4], c[8]]
    assert [o.key for o in history.lineage(history.find((2, 1)))] == [(2, 0), (2, 1)]
    assert history.schedule(history.find((0, 2))) == [c[0], c[0], c[0]]
    assert History(SPACE).lineage() == History(SPACE).schedule() == []


def test_a_lineage_begins_at_the_last_fresh_start() -> None:
    history = History(SPACE, [observed(0, 0, **FAILED), observed(0, 1, B), observed(0, 2, B, parent=(0, 1))])
    assert [o.key for o in history.lineage()] == [(0, 1), (0, 2)]


# Windows


def test_recent_rows_are_the_last_whole_rounds_in_the_order_of_members() -> None:
    history = History(SPACE, size=3)
    for round_ in range(4):
        for member in (2, 0, 1):
            history.append(observed(member, round_, score=float(10 * round_ + member)))
    assert list(zip(*(c.tolist() for c in (history.recent(7).round, history.recent(7).member)), strict=True)) == [
        (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)
    ]  # fmt: skip
    assert history.recent(6).member.tolist() == [0, 1, 2, 0, 1, 2]
    assert len(history.recent(5)) == 3
    assert len(history.recent()) == len(history.recent(99)) == 12
    assert len(history.recent(0)) == 0


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_of_a_round_that_does_not_fit_the_same_members_are_seen_whatever_the_order(order: Any) -> None:
    history = History(SPACE, size=4)
    for round_ in range(3):
        for member in order:
            history.append(observed(member, round_))
    for rows in (history.recent(2), history.informative(2)):
        assert 1 <= len(rows) <= 2
    assert history.recent(2).member.tolist() == [0, 1]


def test_without_a_size_the_window_is_the_last_observations() -> None:
    history = History(SPACE, [observed(member, 0) for member in range(9)])
    assert history.recent(4).member.tolist() == [5, 6, 7, 8]


def test_remembered_rows_are_recent_ones_and_older_ones_that_were_new() -> None:
    """Members keep their configuration except every fifth round."""
    history = History(SPACE, size=2)
    for round_ in range(40):
        for member in range(2):
            config = {"x": (round_ // 5) / 10, "h": "ab"[member]}
            parent = None if round_ == 0 else (member, round_ - 1)
            history.append(observed(member, round_, config, parent=parent))
    rows = history.informative(24)
    # The last 6 rounds; of the 7 earlier rounds with something new, those of every 2nd round.
    assert rows.round.tolist() == sorted([*range(34, 40), 0, 10, 20, 30] * 2)
    assert history.informative(None).round.tolist() == history.recent().round.tolist()
    assert len(history.informative(80)) == 80


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 14), st.integers(1, 60), st.integers(1, 3))
def test_no_window_is_ever_exceeded(size: int, rounds: int, window: int, every: int) -> None:
    history = History({"x": (0.0, 1.0)}, size=size)
    for round_ in range(rounds):
        for member in range(size):
            history.append(observed(member, round_, {"x": (round_ // every) / 20}))
    for rows in (history.recent(window), history.informative(window)):
        assert min(1, len(history)) <= len(rows) <= window
        places = list(zip(rows.round.tolist(), rows.member.tolist(), strict=True))
        assert places == sorted(set(places))


# Long histories


def test_appending_grows_the_arrays_a_few_times_only() -> None:
    history = History({"x": (0.0, 1.0)}, size=1)
    made = [history._columns.arrays["score"]]
    for round_ in range(5000):
        history.append(observed(0, round_, {"x": 0.5}))
        if history._columns.arrays["score"] is not made[-1]:
            made.append(history._columns.arrays["score"])
    assert [len(array) for array in made] == [64, 128, 256, 512, 1024, 2048, 4096, 8192]


def test_a_configuration_that_is_carried_on_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(SPACE, size=1)
    calls = []
    original = module.Space.encode

    def counted(space: Any, configs: Any) -> Any:
        calls.append(len(configs))
        return original(space, configs)

    monkeypatch.setattr(module.Space, "encode", counted)
    for round_ in range(100):
        history.append(observed(0, round_, B if round_ >= 50 else A))
    assert calls == [1, 1]


def test_looking_at_a_long_history_touches_a_bounded_part_of_it() -> None:
    size, rounds, config = 100, 200, {"x": 0.5}
    history = History({"x": (0.0, 1.0)}, size=size)
    for place in range(size * rounds):
        history.append(Observation(place % size, place // size, config, score=1.0))
    view = history.prefix(10_050)
    assert view.latest(99) == history.find((99, 99))
    assert view.latest(0) == history.find((0, 100))
    counted: list[int] = []

    class Counting(Observations):
        def __getitem__(self, index: int) -> Observation:
            counted.append(index)
            return super().__getitem__(index)

    history._observations.__class__ = Counting
    assert len(history.recent(300)) == 300
    assert len(history.informative(300)) <= 300
    assert history.member_states().latest.tolist() == list(range(19_900, 20_000))
    assert view.member_states().latest.tolist() == [*range(10_000, 10_050), *range(9_950, 10_000)]
    assert counted == [], "arrays for decisions, no walk over observations"
    assert history.prefix(9).latest(5) == history.find((5, 0))
    assert history.best == history.last_completed(99)
    assert counted == [5, 5, 19_999, 19_999]
