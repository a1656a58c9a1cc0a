"""Warnings: given where a run goes wrong in a way that can be seen, and not where it does not."""

import math
from typing import Any

import numpy as np
import pytest

from popbandits import PBT, Population
from popbandits.advice import LEARNING_RATE, advise, outlook
from popbandits.history import History, Observation
from tests.warned_runs import middle, played, rising


def texts(history: History, kind: str) -> list[str]:
    return [one.text for one in advise(history) if one.kind == kind]


def varied(round_: int) -> dict[str, Any]:
    """A new configuration each round, off the bounds."""
    return middle() | {"lr": 1e-4 * (1 + round_ % 7), "clip": 0.2 + 0.1 * (round_ % 5)}


# Bounds


def test_a_hyperparameter_that_gathers_at_an_end_of_its_range_is_named_with_the_end_and_a_fix() -> None:
    history = played(chosen=lambda t: varied(t) | ({"lr": 1e-5 * (1 + 0.001 * t)} if t % 5 else {}))
    assert texts(history, "bounds") == [
        "8 of the last 10 new configurations have lr at its lower end (1e-05). "
        "Widen its range if values beyond it make sense; if not, fix it at a value. "
        "If members hardly learn with so low a value, raise the lower end of lr instead: "
        "a noisy score falls least where nothing changes, and a model learns to prefer that."
    ]
    [upper] = texts(played(chosen=lambda t: varied(t) | {"lr": 1e-1 * (1 - 0.001 * t)}), "bounds")
    assert upper.endswith(
        "lr at its upper end (0.1). Widen its range if values beyond it make sense; if not, fix it at a value."
    )


def test_several_hyperparameters_at_ends_are_one_warning_the_most_frequent_first() -> None:
    history = played(chosen=lambda t: varied(t) | {"clip": 1.0 - 1e-4 * t} | ({"batch": 16} if t % 3 else {}))
    assert texts(history, "bounds") == [
        "10 of the last 10 new configurations have clip at its upper end (1); "
        "7 of 10 have batch at its lower end (16). "
        "Widen these ranges if values beyond them make sense; if not, fix each at a value."
    ]


def test_those_with_an_inactive_hyperparameter_do_not_count() -> None:
    def chosen(t: int) -> dict[str, Any]:
        return varied(t) | ({"optimizer": "sgd", "momentum": 0.0} if t % 2 else {})

    [text] = texts(played(chosen=chosen), "bounds")
    assert text.startswith("5 of the last 5 new configurations have momentum at its lower end (0).")
    assert texts(played(chosen=chosen, rounds=24), "bounds")
    assert not texts(played(chosen=chosen, rounds=18), "bounds")  # three with momentum


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "they are spread"),
        ({"lr": [1e-5, 1e-1, 1e-3, 1e-4, 1e-5, 1e-1]}, "they are at both ends"),
        ({"lr": [1.2e-5]}, "they are near it, not on it"),
        ({"epochs": [1]}, "a number of few levels has its ends among its usual values"),
    ],
)
def test_there_is_no_word_of_bounds_where(changes: dict[str, list[Any]], why: str) -> None:
    def chosen(t: int) -> dict[str, Any]:
        return varied(t) | {name: values[t % len(values)] for name, values in changes.items()}

    assert not texts(played(chosen=chosen), "bounds"), why


def test_bounds_of_configurations_that_are_carried_on_are_not_new() -> None:
    assert not texts(played(chosen=varied, lr=1e-5, clip=1.0), "bounds")
    assert not texts(played(lr=1e-5, clip=1.0), "bounds")


def test_what_was_on_a_bound_early_is_forgotten() -> None:
    assert texts(played(chosen=lambda t: varied(t) | ({"lr": 1e-5} if t >= 20 else {})), "bounds")
    assert not texts(played(chosen=lambda t: varied(t) | ({"lr": 1e-5} if t < 20 else {})), "bounds")


def test_a_few_new_configurations_are_too_few() -> None:
    assert not texts(played(chosen=lambda t: varied(t) | {"lr": 1e-5}, rounds=4), "bounds")
    assert texts(played(chosen=lambda t: varied(t) | {"lr": 1e-5}, rounds=5), "bounds")


def test_random_search_over_a_wide_space_does_not_sit_on_bounds() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        space = {f"x{i}": (0.0, 1.0) for i in range(13)}
        history = History(space, size=1)
        for t in range(60):
            config = {name: float(rng.random()) for name in space}
            history.append(Observation(0, t, config, parent=(0, t - 1) if t else None, score=float(t)))
        assert not texts(history, "bounds")


# A standstill


def saturating(member: int, round_: int, rng: np.random.Generator) -> float:
    return 100 * (1 - math.exp(-round_ / 2.5)) - member + 2 * rng.normal()


def test_a_winner_that_has_levelled_off_is_told_with_the_numbers() -> None:
    [text] = texts(played(saturating), "standstill")
    assert text.startswith("The leading member hardly learns any more: over the last 9 intervals of its lineage the")
    assert "(standard error " in text
    assert text.endswith("If the task is not solved, look at the hyperparameters it trains with and their ranges.")


@pytest.mark.parametrize("name", ["lr", "actor_lr", "Learning-Rate", "optim.step_size"])
def test_a_learning_rate_in_the_lowest_tenth_of_its_range_is_named(name: str) -> None:
    [text] = texts(played(saturating, name=name, **{name: 2e-5}), "standstill")
    assert text.endswith(
        f"look at {name} = 2e-05: that is in the lowest tenth of the range, and may be too low to learn with."
    )
    assert "lowest tenth" not in texts(played(saturating, name=name, **{name: 1e-4}), "standstill")[0]


@pytest.mark.parametrize("name", ["ctrl", "clrs", "learned", "steps"])
def test_other_names_are_no_learning_rate(name: str) -> None:
    assert not LEARNING_RATE.search(name)


def test_less_is_better_where_the_run_says_so() -> None:
    falling = played(lambda m, t, rng: -saturating(m, t, rng), mode="min")
    [text] = texts(falling, "standstill")
    assert "over the 9 before by -" in text
    assert not texts(played(lambda m, t, rng: -rising(m, t, rng), mode="min"), "standstill")


@pytest.mark.parametrize("noise", [0.0, 5.0])
def test_a_run_that_goes_on_learning_is_left_alone(noise: float) -> None:
    for seed in range(5):
        steady = played(lambda m, t, rng: 10.0 * t - m + noise * rng.normal(), seed=seed)
        assert not texts(steady, "standstill")


def test_a_run_in_which_nobody_learns_is_told() -> None:
    [text] = texts(played(lambda m, t, rng: 5.0), "standstill")
    assert "has not got better by more than noise explains: from the first third of its 29 intervals" in text
    assert text.endswith("begin with a configuration that is known to learn (start=).")


@pytest.mark.parametrize("far", [-1e6, 1e6])
@pytest.mark.parametrize("at", [4, 14, 24], ids=["first third", "second", "last"])
def test_one_score_far_from_the_others_is_neither_a_trend_nor_its_end(at: int, far: float) -> None:
    def score(level: Any) -> Any:
        return lambda m, t, rng: far if (m, t) == (0, at) else level(t) - 20 * m + 2 * rng.normal()

    steady = played(score(lambda t: 10.0 * t))
    assert not texts(steady, "standstill")
    promised = outlook(steady)
    assert promised is not None
    assert 80 < float(promised.text.split("changed by ")[1].split()[0].strip(",")) < 100
    levelled = played(score(lambda t: min(10.0 * t, 100.0)))
    assert outlook(levelled) is None
    [text] = texts(levelled, "standstill")
    assert "hardly learns any more" in text
    assert "e+0" not in text


def test_a_leading_member_that_falls_is_not_said_to_learn_little() -> None:
    [text] = texts(played(lambda m, t, rng: 10.0 * min(t, 30 - t) - m), "standstill")
    assert text.startswith("The leading member gets worse: over the last 9 intervals")


def test_noise_that_hides_what_is_learnt_is_not_taken_for_a_standstill() -> None:
    told = [
        texts(played(lambda m, t, rng: t + 30 * rng.normal(), rounds=18, error=30.0, seed=s), "standstill")
        for s in range(5)
    ]
    assert not any("any more" in text for one in told for text in one)


def test_short_lineages_are_not_judged() -> None:
    assert not texts(played(lambda m, t, rng: 5.0, rounds=9), "standstill")
    assert texts(played(lambda m, t, rng: 5.0, rounds=10), "standstill")


# Noise


def test_members_that_differ_by_noise_alone_are_told() -> None:
    said = [texts(played(lambda m, t, rng: t + 20 * rng.normal(), seed=seed), "noise") for seed in range(5)]
    assert sum(map(bool, said)) >= 2
    text = max(said)[0]
    assert text.startswith(
        "Members' scores differ by little but noise: their standard deviation in the last 10 rounds is "
    )
    assert text.endswith("Who is best is luck. Evaluate with more episodes.")


def test_members_that_differ_by_less_than_the_standard_error_that_was_told_are_told() -> None:
    close = played(lambda m, t, rng: 10.0 * t + m, error=3.0)
    [text] = texts(close, "noise")
    assert "in the last 10 rounds is 1.29, that of a score's noise 3. Who is best is luck." in text
    assert not texts(played(lambda m, t, rng: 10.0 * t + 4 * m, error=3.0), "noise")


def test_members_that_share_their_noise_are_not_ranked_by_luck() -> None:
    shared = np.random.default_rng(0).normal(size=30)
    assert not texts(played(lambda m, t, rng: t + 20 * float(shared[t]) + 0.1 * m), "noise")


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_members_that_differ_by_more_than_noise_are_left_alone(noise: float) -> None:
    for seed in range(5):
        apart = played(lambda m, t, rng: 10.0 * t + 8.0 * m + noise * rng.normal(), seed=seed)
        assert not texts(apart, "noise")


# Any run


def test_a_run_that_goes_well_has_no_warnings() -> None:
    assert advise(played(chosen=varied)) == []


def test_a_history_without_scores_or_a_known_size_can_be_judged() -> None:
    assert advise(History({"x": (0.0, 1.0)})) == []
    failed = [Observation(0, t, {"x": 0.0}, status="failed") for t in range(30)]
    assert advise(History({"x": (0.0, 1.0)}, failed)) == []


@pytest.mark.parametrize("factor", [1e300, 1e160, 1e-300])
def test_scores_of_any_size_can_be_judged(factor: float) -> None:
    for error in (None, factor):
        advise(played(lambda m, t, rng: 1e7 * factor * rng.normal(), error=error))


def test_names_lose_what_a_terminal_would_obey() -> None:
    name = "lr\x1b[31m" + 100 * "x"
    [text] = texts(played(chosen=lambda t: middle(name) | {name: 1e-5, "clip": 0.3 + t / 100}, name=name), "bounds")
    assert text.isprintable()
    assert 60 * "x" not in text


def test_a_real_population_in_any_order_of_telling_can_be_judged() -> None:
    population = Population({"lr": (0.0, 1.0)}, PBT(), size=5, seed=1, synchronous=False)
    rng = np.random.default_rng(0)
    waiting = population.ask()
    for _ in range(200):
        done = waiting.pop(int(rng.integers(len(waiting))))
        population.tell(done, float(rng.normal()))
        waiting += population.ask()
    found = {one.kind for one in advise(population.history)}
    assert found <= {"bounds", "standstill", "noise"}
    assert "standstill" in found


# Outlook


def test_more_rounds_are_promised_only_where_the_leading_member_clearly_gets_better() -> None:
    found = outlook(played())
    assert found is not None
    assert found.kind == "rising"
    assert found.text == (
        "The leading member still gets better: over the last 9 intervals of its lineage the interquartile mean of its "
        "score changed by +90, over the 9 before by +90."
    )
    falling = outlook(played(lambda m, t, rng: -10.0 * t - m, mode="min"))
    assert falling is not None
    assert "changed by -90" in falling.text  # Less is better.
    flat, noisy = played(lambda m, t, rng: 5.0 + m), played(lambda m, t, rng: 0.01 * t + rng.normal(), error=1.0)
    assert outlook(flat) is outlook(noisy) is outlook(played().prefix(8)) is None
    for history in (flat, played(), noisy):  # Never both.
        assert not (outlook(history) and texts(history, "standstill"))
