"""Near PBT: draws lean to good values, and the rest moves a little."""

from collections.abc import Sequence
from typing import Any

import ConfigSpace as cs
import numpy as np
import pytest
from scipy.stats import beta, kstest, norm

from popbandits.errors import ArgumentError
from popbandits.explorers import PBT, Explorer, NearPBT
from popbandits.history import Config, History, Observation
from popbandits.population import Population
from popbandits.population.initial import initial_points
from popbandits.space import Prior, Space
from popbandits.space.drawing import draw_config

SPACE = Space({"a": (0.0, 1.0), "b": (0.0, 1.0), "label": ["x", "y", "z", "w"]})
NOTHING = History(SPACE)
PARENT = Observation(0, 0, {"a": 0.9, "b": 0.05, "label": "x"}, score=1.0)


def explored(explorer: NearPBT, count: int = 2000, parent: Observation | None = PARENT) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [explorer.explore(SPACE, NOTHING, [], parent, rng) for _ in range(count)]


def test_without_a_start_draws_are_uniform() -> None:
    for configs in (explored(NearPBT(resample=1.0)), explored(NearPBT(), parent=None)):
        for name in ("a", "b"):
            assert kstest([config[name] for config in configs], "uniform").pvalue > 0.01


START = {"a": 0.2, "b": 1.0, "label": "y"}


def leaning(start: list[dict[str, Any]], count: int = 2000, **settings: Any) -> list[dict[str, Any]]:
    """New configurations of a population that was given a start."""
    population = Population(SPACE, explorer := NearPBT(resample=1.0, resample_label=1.0, **settings), start=start)
    rng = np.random.default_rng(0)
    return [explorer.explore(population.space, NOTHING, [], PARENT, rng) for _ in range(count)]


@pytest.mark.parametrize(("settings", "weight"), [({}, 2), ({"concentration": 4.0}, 6)])
def test_with_a_start_draws_lean_to_it(settings: Any, weight: int) -> None:
    configs = leaning([START], **settings)
    for name, mode in (("a", 0.2), ("b", 1.0)):
        values = [config[name] for config in configs]
        assert kstest(values, beta(1 + weight * mode, 1 + weight * (1 - mode)).cdf).pvalue > 0.01
    shares = {label: np.mean([config["label"] == label for config in configs]) for label in "xyzw"}
    assert shares == pytest.approx({"x": 1 / 8, "y": 5 / 8, "z": 1 / 8, "w": 1 / 8}, abs=0.04)


def test_with_several_starts_each_draw_leans_to_one_of_them() -> None:
    configs = leaning([START, {"a": 0.8, "b": 0.0, "label": "z"}], concentration=4.0)
    assert np.mean([config["b"] for config in configs if config["a"] < 0.2]) > 0.7
    assert np.mean([config["b"] for config in configs if config["a"] > 0.8]) < 0.3
    assert np.mean([config["label"] in "yz" for config in configs]) == pytest.approx(3 / 4, abs=0.04)


def test_draws_are_uniform_with_a_concentration_of_one() -> None:
    configs = leaning([START], concentration=1.0)
    assert kstest([config["a"] for config in configs], "uniform").pvalue > 0.01
    assert np.mean([config["label"] == "y" for config in configs]) == pytest.approx(1 / 4, abs=0.04)


def test_the_other_members_begin_around_the_start() -> None:
    others = [assignment.config for assignment in Population(SPACE, size=64, seed=3, start=[START]).ask()][1:]
    assert np.median([config["a"] for config in others]) == pytest.approx(beta(1.4, 2.6).median(), abs=0.03)
    assert np.mean([config["label"] == "y" for config in others]) == pytest.approx(5 / 8, abs=0.05)


class Own:
    """A method of a user's own that leans to a start."""

    def explore(self, *given: Any) -> dict[str, Any]:
        raise AssertionError("nobody explores in the first round")

    def make_prior(self, space: Space, start: Sequence[Config]) -> Prior:
        return Prior(4.0, space.encode(start))


class Former(Explorer):
    """The same as earlier versions wanted it."""

    concentration, around_start = 4.0, True


def test_a_method_of_the_users_own_can_lean_to_a_start_too() -> None:
    others = [assignment.config for assignment in Population(SPACE, Own(), size=64, start=[START]).ask()][1:]
    assert np.median([config["b"] for config in others]) > 0.8
    with pytest.warns(DeprecationWarning, match=r"^Former: concentration and around_start .* define make_prior"):
        former = Population(SPACE, Former(), size=64, start=[START])
    assert [assignment.config for assignment in former.ask()][1:] == others
    with pytest.warns(DeprecationWarning, match="define make_prior"):
        middle = Population(SPACE, Former(), size=64)
    assert np.std([a.config["a"] for a in middle.ask()]) == pytest.approx(1 / 6, abs=0.02)  # Beta(4, 4)'s


def test_a_method_that_hands_on_to_the_default_draws_as_that_does() -> None:
    class Wrapped(Explorer):
        def explore(self, *given: Any) -> dict[str, Any]:
            return NearPBT(resample=1.0).explore(*given)

    space, rng = Population(SPACE, Wrapped()).space, np.random.default_rng(0)
    assert [Wrapped().explore(space, NOTHING, [], PARENT, rng) for _ in range(20)] == explored(
        NearPBT(resample=1.0), 20
    )


def test_methods_that_draw_uniformly_do_not_lean_to_a_start() -> None:
    begun = [Population(SPACE, PBT(), size=8, start=start).ask()[1:] for start in ([], [START])]
    assert begun[0] == begun[1]


OWN = {
    "a": cs.Float("a", (0.0, 1.0), distribution=cs.Beta(8, 2)),
    "b": (0.0, 1.0),
    "label": cs.Categorical("label", ["x", "y"], weights=[0.9, 0.1]),
}
"""A space of which two parameters have distributions of their own."""


@pytest.mark.parametrize("start", [None, [{"a": 0.1, "b": 0.1, "label": "y"}]], ids=["no start", "a start"])
def test_a_parameter_with_a_distribution_of_its_own_keeps_it(start: Any) -> None:
    population = Population(OWN, size=200, start=start)
    first = [a.config for a in population.ask()][1:]
    rng = np.random.default_rng(0)
    fresh = [draw_config(population.space, rng) for _ in range(400)]
    parent = Observation(0, 0, {"a": 0.1, "b": 0.1, "label": "y"}, score=1.0)
    history = History(population.space)
    again = NearPBT(resample=1.0, resample_label=1.0)
    drawn = [again.explore(population.space, history, [], parent, rng) for _ in range(400)]
    for configs in (first, fresh, drawn):
        assert kstest([config["a"] for config in configs], beta(8, 2).cdf).pvalue > 1e-6
        # Six standard errors: draws below it are more likely than those of a normal distribution.
        assert np.mean([config["label"] == "x" for config in configs]) == pytest.approx(
            0.9, abs=6 * (0.9 * 0.1 / len(configs)) ** 0.5
        )
        assert np.median([config["b"] for config in configs]) == pytest.approx(
            0.5 if start is None else beta(1.2, 2.8).median(), abs=0.06
        )


def test_other_numbers_move_by_a_normal_step_and_are_reflected_at_the_ends() -> None:
    configs = explored(NearPBT(resample=0.0, step=0.1))
    a, b = (np.array([config[name] for config in configs]) for name in ("a", "b"))
    assert 0.0 <= a.min() <= a.max() <= 1.0
    assert 0.0 <= b.min() <= b.max() <= 1.0
    inside = kstest(a[a < 0.8] - 0.9, lambda x: np.clip(_folded(x), 0, 1)).pvalue
    assert inside > 0.01
    assert not np.isin(b, (0.0, 1.0)).any()  # None is left at an end.
    still = explored(NearPBT(resample=0.0, resample_label=0.0, step=0.0), 20)
    assert all(config == PARENT.config for config in still)


def _folded(x: Any) -> Any:
    """Distribution of a step of 0.1 below 0.9, given that it ends below 0.8: only its tail is not reflected."""
    return norm.cdf(x, scale=0.1) / norm.cdf(-0.1, scale=0.1)


def test_shares_that_are_drawn_anew_are_those_asked_for() -> None:
    configs = explored(NearPBT(resample=0.6, resample_label=0.8, step=0.0))
    assert np.mean([config["a"] != 0.9 for config in configs]) == pytest.approx(0.6, abs=0.04)
    kept = np.mean([config["label"] == "x" for config in configs])
    assert kept == pytest.approx(0.2 + 0.8 / 4, abs=0.04)


def test_first_configurations_lean_as_the_method_does_and_stay_stratified() -> None:
    points = initial_points(SPACE.with_prior(Prior(4.0)), 64, np.random.default_rng(0))
    slices = np.floor(64 * beta(4, 4).cdf(points.x)).astype(int)
    assert all(sorted(column) == list(range(64)) for column in slices.T)
    for start, spread in (({"a": 0.5}, beta(2, 2).std()), ("random", 12**-0.5)):
        first = Population(SPACE, size=64, seed=3, start=start).ask()
        assert np.std([a.config["a"] for a in first]) == pytest.approx(spread, abs=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resample": 1.5}, "resample must be a probability between 0 and 1, got 1.5"),
        ({"resample_label": -1}, "resample_label must be a probability between 0 and 1, got -1"),
        ({"step": 2.0}, "step must be a share of a range between 0 and 1, got 2.0"),
        ({"concentration": 0.5}, "concentration must be between 1 and 100, got 0.5"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        NearPBT(**settings)
