"""The benchmark problems say the truth about what is attainable, and are the same for every method."""

import math
from typing import Any

import numpy as np
import pytest

from popbandits_experiments.paper.synthetic import floor
from popbandits_experiments.simulated.landscapes import Problem, State
from popbandits_experiments.simulated.problems import PROBLEMS, Training, Trap, make
from popbandits_experiments.simulated.simulate import run

ROUNDS = 50
everything = pytest.mark.parametrize("name", PROBLEMS)
learnable = pytest.mark.parametrize("name", [name for name, p in PROBLEMS.items() if p.learnable])
episodic = pytest.mark.parametrize("name", [name for name, p in PROBLEMS.items() if p.episodic])


def configs(problem: Problem, n: int, seed: int = 0) -> list[dict[str, Any]]:
    space = problem.space()
    space.seed(seed)
    return [dict(config) for config in space.sample_configuration(n)]


def walk(problem: Problem, seed: int = 0) -> list[tuple[State, float, float]]:
    """A run with a random configuration in every round."""
    state, steps = problem.start(np.random.default_rng(seed)), []
    for t, config in enumerate(configs(problem, ROUNDS, seed)):
        state, score, gain = problem.step(state, config, t, np.random.default_rng([seed, t]))
        steps.append((state, score, gain))
    return steps


@everything
def test_every_step_is_finite(name: str) -> None:
    for state, score, gain in walk(make(name, seed=1)):
        assert all(map(math.isfinite, (*state, score, gain)))


@everything
def test_no_configuration_gains_more_than_the_best_gain(name: str) -> None:
    problem = make(name, seed=2)
    states = [problem.start(np.random.default_rng(0))] + [state for state, _, _ in walk(problem)]
    rng = np.random.default_rng(0)
    for i, config in enumerate(configs(problem, 500)):
        state, t = states[i % len(states)], i % ROUNDS
        assert problem.step(state, config, t, rng)[2] <= problem.best_gain(state, t) + 1e-12


@learnable
@pytest.mark.parametrize("seed", range(3))
def test_the_best_configuration_is_legal_and_reaches_the_best_gain(name: str, seed: int) -> None:
    problem = make(name, seed)
    space, state = problem.space(), problem.start(np.random.default_rng(0))
    for t in range(ROUNDS):
        config = problem.best_config(state, t)
        type(space.sample_configuration())(space, values=config).check_valid_configuration()
        best = problem.best_gain(state, t)
        state, _, gain = problem.step(state, config, t, np.random.default_rng(t))
        if name not in ("trap", "plateau"):  # whose best schedules give up gain at first
            assert gain == pytest.approx(best, abs=1e-9)


@episodic
def test_the_best_schedule_reaches_the_best_total(name: str) -> None:
    problem = make(name, seed=3)
    state, total = problem.start(np.random.default_rng(0)), 0.0
    for t in range(ROUNDS):
        state, _, gain = problem.step(state, problem.best_config(state, t), t, np.random.default_rng(t))
        total += gain
    assert total == pytest.approx(problem.best_total())


@episodic
def test_no_random_schedule_beats_the_best_total(name: str) -> None:
    problem = make(name, seed=4)
    totals = [sum(gain for _, _, gain in walk(problem, seed)) for seed in range(20)]
    assert max(totals) < problem.best_total()


def test_the_best_total_of_the_trap_is_that_of_the_best_of_all_switching_schedules() -> None:
    problem = Trap.draw(np.random.default_rng(5), ROUNDS)
    patient, greedy = ({"h": f"h{problem.labels.index((1.0, g))}", "greed": g, "x": problem.centre} for g in (0.0, 1.0))
    totals = []
    for switch in range(ROUNDS + 1):
        state = problem.start(np.random.default_rng(0))
        for t in range(ROUNDS):
            state, _, _ = problem.step(state, patient if t < switch else greedy, t, np.random.default_rng(t))
        totals.append(state[0])
    assert max(totals) == pytest.approx(problem.best_total())
    assert totals[0] < 0.7 * max(totals), "greed from the start must lose"
    assert 0 < np.argmax(totals) < ROUNDS, "neither always patient nor always greedy"


def test_a_learning_rate_over_the_edge_destroys_the_policy() -> None:
    problem = make("training", seed=6)
    assert isinstance(problem, Training)
    config = problem.best_config((0.5,), 0) | {"lr": 1e-2}
    assert problem.step((0.5,), config, 0, np.random.default_rng(0))[2] < -0.3


def test_skill_after_an_interval_of_training_increases_with_skill_before() -> None:
    """On which the claim rests that the best gain of each round makes the best schedule."""
    problem = make("training", seed=7)
    for config in configs(problem, 100):
        after = [s + problem.step((s,), config, 0, np.random.default_rng(0))[2] for s in np.linspace(0, 1, 20)]
        assert np.all(np.diff(after) > 0)


@everything
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    assert walk(make(name, seed=8)) == walk(make(name, seed=8))


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "sincos"])
def test_another_seed_is_another_problem(name: str) -> None:
    assert walk(make(name, seed=9)) != walk(make(name, seed=10))


@everything
def test_a_run_repeats_exactly_and_its_regret_is_not_negative(name: str) -> None:
    first, second = (run(name, "perfect", size=4, rounds=10, seed=11) for _ in range(2))
    assert (first.regret, first.best, first.final) == (second.regret, second.best, second.final)
    assert first.regret >= 0


@pytest.mark.parametrize(("size", "options"), [(4, {}), (8, {}), (4, {"quantile": 0.5}), (4, {"explore": "all"})])
def test_the_perfect_explorer_reaches_the_floor_of_the_synthetic_experiment(size: int, options: dict[str, Any]) -> None:
    """Two simulations of the same rule: this one plays any problem, that one many sin/cos runs at once."""
    regrets = [run("sincos", "perfect", seed=seed, size=size, rounds=12, **options).regret for seed in range(100)]
    expected = floor(size, rounds=12, **options).mean[-1]
    assert np.mean(regrets) == pytest.approx(expected, abs=3 * float(np.std(regrets)) / math.sqrt(100))


def test_nothing_is_learnt_from_noise() -> None:
    regrets = {run("noise", method, rounds=10, seed=12).regret for method in ("perfect", "perfect/all", "perfect/half")}
    assert len(regrets) == 1
