"""Patient truncation: nobody is replaced in the warm-up but who failed, and after a collapse the peak is the parent."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from popbandits.errors import ArgumentError
from popbandits.history import History, Observation
from popbandits.history.memory import NO_INDEX
from popbandits.population import Population
from popbandits.run.recipes import prepare, recipe
from popbandits.selection import Picks, Truncation
from popbandits_experiments.methods import Patient
from popbandits_experiments.methods.patient import expected_maximum
from tests.selection.histories import SPACE, history_of

FALLING = [4.0, 3.0, 2.0, 1.0]


def select(selection: Patient | Truncation, history: History, seed: int = 0) -> Picks:
    size = len(history.member_states().latest)
    return selection.select(history, np.arange(size), np.random.default_rng(seed))


def test_nobody_is_replaced_until_the_warm_up_is_over() -> None:
    patient = Patient(warm_up=0.003)  # Of 1,000 rounds: three.
    for rounds in (1, 2):
        picks = select(patient, history_of([FALLING] * rounds))
        assert not picks.explores.any()
        assert picks.weights.tolist() == picks.config.tolist() == list(range(4 * rounds - 4, 4 * rounds))
    picks = select(patient, history_of([FALLING] * 3))
    assert picks.explores.tolist() == [False, False, False, True]
    assert picks.weights[3] == 8


def test_a_warm_up_can_be_a_number_of_rounds() -> None:
    assert Patient(warm_up=3).warm_up_rounds(rounds=None) == Patient(warm_up=3).warm_up_rounds(rounds=4) == 3
    assert Patient(warm_up=0).warm_up_rounds(rounds=None) == 0
    assert not select(Patient(warm_up=2), history_of([FALLING])).explores.any()
    assert select(Patient(warm_up=2), history_of([FALLING] * 2)).explores.any()


def test_a_member_that_fails_in_the_warm_up_goes_on_from_the_best() -> None:
    picks = select(Patient(), history_of([[4.0, np.nan, 2.0, 1.0]]))
    assert picks.weights.tolist() == [0, 0, 2, 3]
    assert picks.explores.tolist() == [False, True, False, False]


def test_without_warm_up_and_way_back_it_is_truncation() -> None:
    rng = np.random.default_rng(1)
    for seed in range(20):
        history = history_of(rng.normal(size=(5, 8)).tolist())
        ours, theirs = select(Patient(0.5, 0.0, np.inf), history, seed), select(Truncation(0.5), history, seed)
        assert ours.weights.tolist() == theirs.weights.tolist()
        assert ours.explores.tolist() == theirs.explores.tolist()


def wavering(peak: float, now: float) -> History:
    """Scores of two members that change by about 1 a round, then a peak, then what they have now."""
    made = History(SPACE, size=2, rounds=20)
    scores = [[0.0, 0.1], [1.0, 0.9], [0.2, 0.0], [1.1, 1.0], [peak, 0.0], [now, now - 0.1]]
    for round_, row in enumerate(scores):
        for member, score in enumerate(row):
            parent = (member, round_ - 1) if round_ else None
            before = scores[round_ - 1][member] if round_ else float("nan")
            made.append(Observation(member, round_, {"x": 0.5}, parent, before, score))
    return made


def test_after_a_collapse_of_all_the_best_checkpoint_there_was_is_the_parent() -> None:
    peak = 8  # The place of member 0 in round 4.
    assert select(Patient(warm_up=0.0), wavering(peak=9.0, now=0.0)).weights[1] == peak
    assert select(Patient(warm_up=0.0, collapse=100.0), wavering(peak=9.0, now=0.0)).weights[1] == 10


def test_a_fall_that_is_usual_is_no_collapse() -> None:
    assert select(Patient(warm_up=0.0), wavering(peak=1.3, now=0.6)).weights[1] == 10


def test_where_less_is_better_a_rise_is_the_collapse() -> None:
    rising, drawn = [[1.0, 2.0], [1.1, 2.0], [9.0, 9.1]], History(SPACE, mode="min", size=2, rounds=20)
    for round_, row in enumerate(rising):
        for member, score in enumerate(row):
            before = rising[round_ - 1][member] if round_ else float("nan")
            drawn.append(
                Observation(member, round_, {"x": 0.5}, (member, round_ - 1) if round_ else None, before, score)
            )
    assert select(Patient(warm_up=0.0, collapse=0.5), drawn).weights[1] == 0


def trained_alone(scores: np.ndarray[Any, np.dtype[np.float64]]) -> History:
    """A run whose members always go on from their own weights; rows are rounds."""
    made = History(SPACE, size=scores.shape[1], rounds=1000)
    for (round_, member), score in np.ndenumerate(scores):
        parent = (member, round_ - 1) if round_ else None
        before = float(scores[round_ - 1, member]) if round_ else float("nan")
        made.append(Observation(member, round_, {"x": 0.5}, parent, before, float(score)))
    return made


def goes_back(selection: Patient, history: History) -> bool:
    """Tell whether the replaced members load weights that no member has."""
    picks = select(selection, history)
    loaded = picks.weights[picks.explores]
    assert len(loaded)
    return not np.isin(loaded, [*history.member_states().latest, NO_INDEX]).any()


@pytest.mark.parametrize("members", [4, 8, 16])
def test_luck_alone_hardly_ever_looks_like_a_collapse(members: int) -> None:
    before, now = Patient(warm_up=0.0, collapse=1.0, edition=1), Patient(warm_up=0.0)
    returned = {before: 0, now: 0}
    for seed in range(25):
        history = trained_alone(np.random.default_rng(seed).normal(size=(30, members)))
        for rounds in (16, 30):
            for selection in returned:
                returned[selection] += goes_back(selection, history.prefix(rounds * members))
    assert returned[now] <= 2 < 10 < returned[before]  # Of 50.


@pytest.mark.parametrize("fall", [5, 16])
def test_a_fall_beyond_luck_is_a_collapse_at_once(fall: float) -> None:
    found = 0
    for seed in range(20):
        scores = 0.9 + 0.05 * np.random.default_rng(seed).normal(size=(20, 4))
        scores[-1] -= 0.05 * fall  # A fall by 16 deviations is one from 0.9 to 0.1.
        found += goes_back(Patient(warm_up=0.0), trained_alone(scores))
    assert found >= 18


def test_the_expected_maximum_of_normal_numbers_is_about_that_of_the_integral() -> None:
    for n in (1, 2, 4, 16, 120, 1000, 100_000):
        exact, _ = quad(lambda x, n=n: x * n * norm.pdf(x) * norm.cdf(x) ** (n - 1), -9, 9, points=[0, 2, 4], limit=200)
        assert expected_maximum(n) == pytest.approx(exact, abs=0.03)
    assert expected_maximum(1) == 0.0


def test_a_run_on_record_keeps_the_way_back_that_it_began_with() -> None:
    record: Any = recipe(Patient(collapse=1.0))
    del record["settings"]["edition"]
    assert prepare(record, "selection") == Patient(collapse=1.0, edition=1)


def apart(finished: list[int]) -> History:
    """A run whose members have finished different numbers of rounds; the first scores best, the last worst."""
    made = History(SPACE, size=len(finished), rounds=1000)
    for member, rounds in enumerate(finished):
        for round_ in range(rounds):
            parent = (member, round_ - 1) if round_ else None
            made.append(Observation(member, round_, {"x": 0.5}, parent, 0.0, -float(member)))
    return made


def test_in_an_asynchronous_run_the_warm_up_counts_the_rounds_of_all() -> None:
    patient, before = Patient(warm_up=5, adaptive=False), Patient(warm_up=5, adaptive=False, edition=1)
    slow, fast = apart([8, 8, 8, 1]), apart([1, 1, 1, 8])
    assert select(patient, slow).explores.tolist() == [False, False, False, True]
    assert not select(patient, fast).explores.any()
    assert not select(before, slow).explores.any()
    assert select(before, fast).explores.any()


def test_a_run_without_a_set_end_warms_up_for_ten_rounds() -> None:
    population = Population(SPACE, size=2, rounds=None, selection=Patient())
    replaced: list[int] = []
    for round_ in range(14):
        for assignment in population.ask():
            if assignment.parent is not None and assignment.parent[0] != assignment.member:
                replaced.append(round_)
            population.tell(assignment, float(assignment.member))
    assert replaced == [10, 11, 12, 13]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantile": 0.6}, "quantile must be above 0 and at most 0.5, got 0.6"),
        ({"warm_up": 1.5}, "warm_up must be a share of the rounds below 1, or a whole number of rounds, got 1.5"),
        ({"warm_up": -0.1}, "warm_up must be a share of the rounds below 1, or a whole number of rounds, got -0.1"),
        ({"collapse": -1.0}, "collapse must be at least 0, got -1.0"),
        ({"adaptive": 2}, "adaptive must be True or False, got 2"),
        ({"edition": 3}, "edition must be a whole number from 1 to 2, got 3"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Patient(**settings)
