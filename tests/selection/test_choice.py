"""What is handed over by scores alone: not the luckiest score, but not less than there was either."""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from popbandits.basics.typing import FloatArray
from popbandits.history import History, Observation
from popbandits.selection.choice import Candidate, choose_by_evaluations, choose_by_scores, read_choice
from tests.selection.histories import history_of

SIZE, ROUNDS = 6, 16


def simulated(seed: int, gain: Sequence[float], noise: float = 1.0, sign: float = 1.0) -> tuple[History, FloatArray]:
    """A run of members that differ in skill and gain alike in each round; and the true skills, (rounds, members)."""
    rng = np.random.default_rng(seed)
    skills = rng.normal(0, 0.5, SIZE) + np.cumsum(gain)[:, None] + np.cumsum(rng.normal(0, 0.05, (ROUNDS, SIZE)), 0)
    scores = sign * (skills + noise * rng.normal(size=skills.shape))
    history = History({"x": (0.0, 1.0)}, mode="max" if sign > 0 else "min", size=SIZE, rounds=ROUNDS)
    for round_, member in product(range(ROUNDS), range(SIZE)):
        before = {"parent": (member, round_ - 1), "score_before": float(scores[round_ - 1, member])} if round_ else {}
        history.append(Observation(member, round_, {"x": 0.5}, score=float(scores[round_, member]), **before))  # type: ignore[arg-type]
    return history, skills


def gains_over_the_best_ever(
    gain: Sequence[float], noise: float = 1.0, sign: float = 1.0, runs: int = 40
) -> FloatArray:
    """True skill of what is handed over, less that of the best score ever, in many runs."""
    found = []
    for seed in range(runs):
        history, skills = simulated(seed, gain, noise, sign)
        choice, ever = choose_by_scores(history), history.best
        assert choice is not None
        assert ever is not None
        chosen = choice.observation
        found.append(skills[chosen.round, chosen.member] - skills[ever.round, ever.member])
    return np.array(found)


@pytest.mark.parametrize(
    ("gain", "sign", "runs"),
    [(0.0, 1.0, 120), (0.1, 1.0, 40), (0.1, -1.0, 40)],
    ids=["noise alone", "a steady rise", "a steady fall of what is to be small"],
)
def test_more_skill_is_handed_over_than_the_best_score_ever_has(gain: float, sign: float, runs: int) -> None:
    more = gains_over_the_best_ever([gain] * ROUNDS, sign=sign, runs=runs)
    assert more.mean() > 2 * more.std(ddof=1) / math.sqrt(len(more))


def test_after_a_collapse_the_best_ever_is_handed_over() -> None:
    more = gains_over_the_best_ever([0.3] * (ROUNDS - 4) + [-4.0] * 4)
    assert more == pytest.approx(0)


def test_without_noise_the_best_ever_is_handed_over() -> None:
    more = gains_over_the_best_ever([0.3] * (ROUNDS - 4) + [-0.05] * 4, noise=0.0)
    assert more == pytest.approx(0, abs=0.1)


def test_with_too_few_scores_to_tell_the_best_ever_is_handed_over() -> None:
    choice = choose_by_scores(history_of([[1.0, 5.0], [2.0, 4.0]]))
    assert choice is not None
    assert (choice.reason, choice.observation.key) == ("score", (1, 0))
    assert [each.observation.key for each in choice.candidates] == [(1, 1), (1, 0)]
    assert str(choice) == "member 1, round 0: 5, the best score"


def test_the_control_is_a_candidate_if_there_is_one() -> None:
    choice = choose_by_scores(history_of([[1.0, 5.0], [2.0, 4.0]]), control=True)
    assert choice is not None
    assert [each.observation.key for each in choice.candidates] == [(1, 1), (1, 0), (0, 1)]


def with_lost(history: History, *keys: tuple[int, int]) -> History:
    """Add a round in which members find these checkpoints lost, the first member the first."""
    for member, key in enumerate(keys):
        history.append(Observation(member, history.finished(member), {"x": 0.5}, key, status="lost"))
    return history


def test_a_lost_checkpoint_is_not_handed_over_and_the_choice_says_so() -> None:
    """Were it the best ever, the best last one takes its part, since others may have been removed."""
    lost_best = choose_by_scores(with_lost(history_of([[1.0, 5.0], [4.5, 3.0], [2.0, 4.0]]), (1, 0)))
    assert str(lost_best) == (
        "member 1, round 2: 4, the best score whose checkpoint is left; the checkpoint of member 1, round 0 is lost"
    )
    two = choose_by_scores(with_lost(history_of([[1.0, 5.0], [2.0, 4.0]]), (1, 0), (1, 1)), control=True)
    assert str(two) == "member 0, round 1: 2, the best score whose checkpoint is left; 2 checkpoints are lost"
    assert two is not None
    assert [each.observation.key for each in two.candidates] == [(0, 1)]
    lasts = choose_by_scores(with_lost(history_of([[1.0, 5.0], [2.0, 4.0]]), (0, 1), (1, 1)))
    assert str(lasts).startswith("member 1, round 0: 5, the best score whose checkpoint is left; 2 checkpoints")
    every = choose_by_scores(with_lost(history_of([[1.0], [2.0]]), (0, 1)))
    assert str(every) == "member 0, round 1: 2, the best score; its checkpoint is lost, as all others are"


def test_noisy_scores_hand_over_no_lost_checkpoint_either() -> None:
    history, _ = simulated(0, [0.1] * ROUNDS)
    before = choose_by_scores(history)
    assert before is not None
    after = choose_by_scores(with_lost(history, before.observation.key))
    assert after is not None
    assert after.reason == before.reason == "smoothed"
    assert before.observation not in [each.observation for each in after.candidates]
    assert "; the checkpoint of member" in str(after)


def test_nothing_is_chosen_where_nothing_completed() -> None:
    assert choose_by_scores(history_of([[math.nan, math.nan]])) is None


def test_evaluations_choose_the_best_mean_and_equal_ones_the_later_round() -> None:
    history = history_of([[1.0, 5.0], [2.0, 4.0]])
    candidates = [Candidate(each, each.score) for each in history]
    scores = np.array([[1.0, 3.0], [math.nan, 9.0], [4.0, 0.0], [1.0, 1.0]])
    choice = choose_by_evaluations(candidates, scores, 1.0)
    assert choice is not None
    assert choice.observation.key == (0, 1)
    assert choice.chosen.standard_error == 2.0
    assert [each.observation.key for each in choice.candidates] == [(0, 0), (0, 1), (1, 1)]
    assert str(choice) == "member 0, round 1: 2 ± 2 in 2 evaluations, the best of 3 candidates"
    least = choose_by_evaluations(candidates, scores, -1.0)
    assert least is not None
    assert least.observation.key == (1, 1)
    assert choose_by_evaluations(candidates, np.full((4, 2), math.inf), 1.0) is None
    alone = choose_by_evaluations(candidates[:1], np.array([[7.0]]), 1.0)
    assert alone is not None
    assert alone.chosen.standard_error is None
    brief = choose_by_evaluations(candidates[:1], np.array([[7.0, 7.2, 7.5]]), 1.0)
    assert str(brief).endswith(": 7.233 ± 0.15 in 3 evaluations, the only candidate")
    same = choose_by_evaluations(candidates[:1], np.full((1, 3), 0.1), 1.0)
    assert str(same).endswith(": 0.1 ± 0 in 3 evaluations, the only candidate")


def test_a_choice_comes_back_from_its_record() -> None:
    history = history_of([[1.0, 5.0], [2.0, 4.0]])
    candidates = [Candidate(each, each.score) for each in history]
    choice = choose_by_evaluations(candidates, np.array([[1.0, 3.0], [1, 9], [4, 0], [1, 1]]), 1.0)
    assert choice is not None
    record = choice.to_record(history)
    assert read_choice(history, record) == choice
    assert read_choice(history.prefix(3), record) == choose_by_scores(history.prefix(3))
    assert read_choice(history, None) == choose_by_scores(history)
