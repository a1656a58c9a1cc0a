"""The level problems have the properties of real training that they are named for."""

from typing import Any

import numpy as np
import pytest

from popbandits.space import Space
from popbandits_experiments.simulated.levels import LEARNING_RATE, Corners, Level, Lucky, MostlyBad, Plateau

ROUNDS = 50
KINDS = (Level, Corners, Plateau, MostlyBad, Lucky)
every_kind = pytest.mark.parametrize("kind", KINDS)
SKILLS = np.linspace(0, 1, 41).tolist()


def drawn(kind: type[Level], seed: int = 0) -> Level:
    return kind.draw(np.random.default_rng(seed), ROUNDS)


def configs(problem: Level, n: int) -> list[dict[str, Any]]:
    space = problem.space()
    space.seed(0)
    return [dict(config) for config in space.sample_configuration(n)]


@every_kind
@pytest.mark.parametrize("seed", range(3))
def test_the_share_of_configurations_that_learn_is_as_stated(kind: type[Level], seed: int) -> None:
    problem = drawn(kind, seed)
    learning = np.mean([problem.ceiling(config, 0.0) > 0 for config in configs(problem, 300)])
    assert learning == pytest.approx(kind.share, abs=4 * (kind.share * (1 - kind.share) / 300) ** 0.5)


@every_kind
def test_the_score_is_the_level_and_noise_of_the_stated_size(kind: type[Level]) -> None:
    problem = drawn(kind)
    config = problem.best_config((0.5,), 0) | {"lr": LEARNING_RATE.low}  # stands still
    scores = [problem.step((0.5,), config, 0, np.random.default_rng(i))[1] / problem.scale for i in range(500)]
    assert np.mean(scores) == pytest.approx(0.5, abs=4 * kind.noise / 500**0.5)
    assert np.std(scores) == pytest.approx(kind.noise, rel=0.1)


@every_kind
def test_skill_stays_between_0_and_1(kind: type[Level]) -> None:
    problem = drawn(kind)
    after = [problem.train(skill, config) for skill in (0.0, 0.5, 1.0) for config in configs(problem, 300)]
    assert min(after) >= 0
    assert max(after) <= 1


@every_kind
def test_the_best_skill_after_an_interval_increases_with_skill_before(kind: type[Level]) -> None:
    """On which the claim rests that the best gain of each round makes the best schedule."""
    problem = drawn(kind)
    assert np.all(np.diff([skill + problem.rise(skill) for skill in SKILLS]) > 0)


@every_kind
def test_the_lowest_learning_rate_changes_nothing(kind: type[Level]) -> None:
    problem = drawn(kind)
    for config in configs(problem, 50):
        assert problem.train(0.7, config | {"lr": LEARNING_RATE.low}) == 0.7


@every_kind
def test_the_best_learning_rate_falls_as_skill_rises(kind: type[Level]) -> None:
    rates = [drawn(kind).best_config((skill,), 0)["lr"] for skill in (0.0, 0.5, 1.0)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 10 * rates[2]


def test_a_good_configuration_rises_as_a_logistic_curve_and_a_bad_one_falls_slowly() -> None:
    problem = drawn(Level)
    rises = [problem.train(s, problem.best_config((s,), 0)) - s for s in SKILLS]
    assert 10 < int(np.argmax(rises)) < 30, "fastest about halfway"
    assert rises[-1] == pytest.approx(0, abs=1e-9)
    bad = [problem.train(0.9, config) for config in configs(problem, 500) if problem.ceiling(config, 0.9) == 0]
    assert len(bad) > 100
    assert all(0.9 * 0.9 - 1e-12 <= after <= 0.9 for after in bad)


def test_where_skill_is_high_the_mean_change_is_least_harmful_where_nothing_is_learnt() -> None:
    """Which teaches a model of the mean change to stop learning."""
    problem = drawn(Level)
    sampled = configs(problem, 1000)
    changes = np.array([problem.train(0.8, config) - 0.8 for config in sampled])
    rate = np.array([LEARNING_RATE.unit(config["lr"]) for config in sampled])
    means = [changes[(rate >= low) & (rate < low + 0.25)].mean() for low in (0.0, 0.25, 0.5, 0.75)]
    assert max(means) < 0
    assert int(np.argmax(means)) == 0


def test_above_the_edge_skill_collapses_and_the_edge_falls_as_skill_rises() -> None:
    problem = drawn(Corners)
    at_first = problem.best_config((0.0,), 0)
    assert problem.train(0.3, at_first) > 0.3
    assert problem.train(0.9, at_first) == pytest.approx(0.09), "what was best for no skill destroys a high one"
    for skill in (0.1, 0.5, 0.9):
        assert problem.train(skill, problem.best_config((skill,), 0) | {"lr": LEARNING_RATE.high}) < 0.2 * skill


def test_on_the_plateau_doing_nothing_scores_better_at_first_and_worse_in_the_end() -> None:
    problem = drawn(Plateau)
    learning = idle = problem.start(np.random.default_rng(0))
    ahead = []
    for t in range(ROUNDS):
        config = problem.best_config(learning, t)
        learning = problem.step(learning, config, t, np.random.default_rng(t))[0]
        idle = problem.step(idle, config | {"lr": LEARNING_RATE.low}, t, np.random.default_rng(t))[0]
        ahead.append(problem.reported(learning[0]) > problem.reported(idle[0]))
    assert not any(ahead[:3])
    assert all(ahead[10:])
    assert problem.reported(learning[0]) > 0.9


def test_on_the_plateau_it_is_not_worth_starting_just_before_the_end() -> None:
    problem = drawn(Plateau)
    assert problem.best_config((0.0,), ROUNDS - 1)["lr"] == LEARNING_RATE.low
    assert problem.best_config((0.0,), ROUNDS - 20)["lr"] > LEARNING_RATE.low
    assert Plateau.draw(np.random.default_rng(0), rounds=1).best_total() == 0


def test_the_mostly_bad_space_is_large_and_has_a_conditional_number() -> None:
    problem = drawn(MostlyBad)
    space = Space(problem.space())
    assert len(space.numerical) >= 10
    assert len(space.categorical) >= 3
    sampled = configs(problem, 100)
    assert {("x10" in config, config["h2"] == "v0") for config in sampled} == {(True, True), (False, False)}


def test_a_conditional_number_matters_where_it_is_active() -> None:
    problem = next(p for p in (drawn(MostlyBad, seed) for seed in range(20)) if p.costs[-1][0] == 0)
    best = problem.best_config((0.0,), 0)
    assert problem.ceiling(best | {"x10": 1.0 if problem.centres[-1] < 0.5 else 0.0}, 0.0) < 1


def test_the_best_score_of_the_lucky_is_not_that_of_the_most_skilled() -> None:
    """Of four configurations, over ten intervals from the same weights, luck decides two times in five or more."""
    problem, hits = drawn(Lucky), 0
    sampled = configs(problem, 400)
    for seed in range(100):
        states, scores = [(0.3,)] * 4, [0.0] * 4
        for t in range(10):
            for i, config in enumerate(sampled[4 * seed : 4 * seed + 4]):
                (skill,), scores[i], _ = problem.step(states[i], config, t, np.random.default_rng([seed, t, i]))
                states[i] = (skill,)
        hits += int(np.argmax(scores)) == int(np.argmax(states))
    assert hits < 60
