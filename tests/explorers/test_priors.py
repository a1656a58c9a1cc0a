"""Every method draws from the prior of the space: its own distributions, and what a method adds to them."""

from functools import cache

import ConfigSpace as cs
import numpy as np
import pytest
from ConfigSpace.hyperparameters import BetaFloatHyperparameter, NormalFloatHyperparameter, NormalIntegerHyperparameter
from scipy.stats import beta, kstest, truncnorm

from popbandits.explorers import PBT, PB2Rand, RandomSearch
from popbandits.explorers.surrogate import draw_for
from popbandits.history import Config, History
from popbandits.methods import METHODS
from popbandits.population import Population
from popbandits.space import Prior, Space

SPACE = Space(
    {
        "momentum": NormalFloatHyperparameter("momentum", mu=0.8, sigma=0.1, lower=0.0, upper=1.0),
        "lr": NormalFloatHyperparameter("lr", mu=1e-2, sigma=2e-3, lower=1e-3, upper=1e-1, log=True),
        "depth": NormalIntegerHyperparameter("depth", mu=3, sigma=1, lower=1, upper=9),
        "gamma": BetaFloatHyperparameter("gamma", alpha=6, beta=2, lower=0.0, upper=1.0),
        "optimizer": cs.Categorical("optimizer", ["adam", "sgd", "lion"], weights=[0.7, 0.2, 0.1]),
    }
)
"""A space in which every parameter has a distribution of its own."""

BANDITS = {"pb2-mult", "pb2-mix", "pb2-fuse", "pb2-fuse/all", "cocabo"}
"""Methods whose labels a bandit draws: it begins with equal chances, whatever the weights."""


@cache
def drawn_by_configspace(n: int = 2000) -> list[cs.Configuration]:
    """Draw configurations with ConfigSpace's own sampler, once for all tests: it is slow."""
    SPACE.configuration_space.seed(0)
    return SPACE.configuration_space.sample_configuration(n)


def assert_own_distributions(configs: list[Config], labels: bool = True) -> None:
    """Compare configurations with the distributions of the space."""
    values = {name: np.array([config[name] for config in configs]) for name in SPACE.names}
    momentum = truncnorm(-8, 2, loc=0.8, scale=0.1)
    assert kstest(values["momentum"], momentum.cdf).pvalue > 1e-3
    assert kstest(values["gamma"], beta(6, 2).cdf).pvalue > 1e-3
    theirs = drawn_by_configspace()
    assert kstest(values["lr"], [config["lr"] for config in theirs]).pvalue > 1e-3
    assert np.mean(values["depth"]) == pytest.approx(np.mean([config["depth"] for config in theirs]), abs=0.2)
    if labels:
        for label, weight in (("adam", 0.7), ("sgd", 0.2), ("lion", 0.1)):
            assert np.mean(values["optimizer"] == label) == pytest.approx(weight, abs=0.07)


@pytest.mark.parametrize("name", METHODS)
def test_first_configurations_follow_the_distributions_of_the_space(name: str) -> None:
    assert_own_distributions([a.config for a in Population(SPACE, name, size=300, seed=1).ask()])


@pytest.mark.parametrize("name", METHODS)
def test_draws_without_anything_known_follow_the_distributions_of_the_space(name: str) -> None:
    """Fresh starts, and what methods with a model draw before they have one."""
    population = Population(SPACE, name, size=4)
    proposals = population.method.explore_round(
        population.space, History(SPACE, size=4), [], [None] * 300, np.random.default_rng(0)
    )
    assert_own_distributions([proposal.config for proposal in proposals], labels=name not in BANDITS)


@pytest.mark.parametrize("method", [PBT(resample=1.0, resample_label=1.0), PB2Rand(resample_label=1.0)], ids=repr)
def test_values_drawn_again_follow_the_distributions_of_the_space(method: PBT | PB2Rand) -> None:
    population = Population(SPACE, method, size=1, explore="all")
    [assignment] = population.ask()
    population.tell(assignment, 1.0)
    [parent], rng = population.history, np.random.default_rng(0)
    proposals = method.explore_round(population.space, population.history, [], [parent] * 300, rng)
    assert_own_distributions([proposal.config for proposal in proposals])


def leaning(space: Space, **known: object) -> Space:
    """Put a strong belief in one configuration on a space."""
    return space.with_prior(Prior(50.0, space.encode([known])))


@pytest.mark.parametrize("method", [RandomSearch(), PBT(), PB2Rand()], ids=repr)
def test_every_method_draws_from_a_prior_that_it_is_given(method: RandomSearch | PBT) -> None:
    space = Space({"a": (0.0, 1.0), "b": (0.0, 1.0), "label": ["x", "y", "z", "w"]})
    rng = np.random.default_rng(0)
    believed = leaning(space, a=0.9, b=0.2, label="y")
    configs = [p.config for p in method.explore_round(believed, History(space, size=4), [], [None] * 200, rng)]
    assert np.abs(np.array([config["a"] for config in configs]) - 0.9).max() < 0.25
    assert np.abs(np.array([config["b"] for config in configs]) - 0.2).max() < 0.25
    assert np.mean([config["label"] == "y" for config in configs]) == pytest.approx(5 / 8, abs=0.1)


def test_numbers_for_given_labels_come_from_the_prior_too() -> None:
    space = leaning(Space({"a": (0.0, 1.0), "label": ["x", "y"]}), a=0.9, label="y")
    rng = np.random.default_rng(0)
    drawn = [draw_for(space, np.array([0]), rng) for _ in range(100)]
    assert all(point.h[0, 0] == 0 for point in drawn)
    assert np.abs(np.array([point.x[0, 0] for point in drawn]) - 0.9).max() < 0.25


def test_a_space_that_forbids_what_is_believed_is_still_drawn_from() -> None:
    made = cs.ConfigurationSpace({"a": cs.Float("a", (0.0, 1.0), default=0.9), "label": ["x", "y"]})
    made.add(cs.ForbiddenLessThanClause(made["a"], 0.8))
    space = leaning(Space(made), a=0.9, label="y")
    forbidden = space.with_prior(Prior(100.0))  # The middle, which no legal value is near.
    rng = np.random.default_rng(0)
    for each in (space, forbidden):
        configs = [RandomSearch().explore(each, History(each), [], None, rng) for _ in range(20)]
        assert all(config["a"] >= 0.8 for config in configs)


def test_a_prior_is_put_on_the_space_of_one_population_only() -> None:
    space = Space({"a": (0.0, 1.0)})
    near, plain = Population(space, start={"a": 0.1}), Population(space)
    assert near.space.prior is not None
    assert space.prior is None is plain.space.prior
    assert Population(near.space, PBT()).space.prior is None
    assert near.space.to_json() == space.to_json()
