"""Ray Tune's search spaces, as ours."""

from typing import Any

import numpy as np
import pytest
from ray import tune

from popbandits import Space
from popbandits.errors import SpaceError
from popbandits.ray.space import as_space, from_bounds, from_param_space


@pytest.mark.parametrize(
    ("domain", "lowest", "highest", "count"),
    [
        (tune.uniform(0.25, 2.0), 0.25, 2.0, None),
        (tune.loguniform(1e-5, 1e-1), 1e-5, 1e-1, None),
        (tune.quniform(0.0, 1.0, 0.1), 0.0, 1.0, 11),
        (tune.qloguniform(1.0, 1000.0, 1.0), 1.0, 1000.0, None),
        (tune.randint(2, 9), 2, 8, 7),
        (tune.lograndint(1, 65), 1, 64, 64),
        (tune.qrandint(4, 12, 4), 4, 12, 3),
        (tune.qlograndint(2, 64, 2), 2, 64, None),
        (tune.choice(["a", None, 3, (1, 2)]), None, None, 4),
    ],
)
def test_a_distribution_keeps_its_values(domain: Any, lowest: Any, highest: Any, count: int | None) -> None:
    space = from_param_space({"x": domain})
    width = len(space.numerical) + len(space.categorical)
    drawn = [config["x"] for config in space.decode(space.from_quantiles(np.linspace(0, 1 - 1e-12, 5000)[:, None]))]
    assert width == 1
    if lowest is not None:
        assert min(drawn) == pytest.approx(lowest)
        assert max(drawn) == pytest.approx(highest)
        assert type(drawn[0]) is type(lowest)
    if count is not None:
        assert len(set(drawn)) == count


def test_log_distributions_are_even_on_a_log_scale() -> None:
    for domain in (tune.loguniform(1e-4, 1.0), tune.qloguniform(0.001, 10.0, 0.001), tune.lograndint(1, 10_001)):
        space = from_param_space({"x": domain})
        [middle] = space.decode(space.from_quantiles(np.array([[0.5]])))
        assert 0.7 < middle["x"] / np.sqrt(domain.lower * domain.upper) < 1.4


def test_only_what_is_open_is_tuned_and_it_stays_nested() -> None:
    space = from_param_space(
        {
            "lr": tune.uniform(0, 1),
            "net": {"act": tune.choice(["relu", "tanh"]), "depth": 3},
            "env": tune.sample_from(lambda spec: 7),
            "fold": tune.grid_search([1, 2]),
        }
    )
    assert space.names == ("lr", "net.act")
    assert space.decode(space.sample(1, np.random.default_rng(0)))[0]["net"].keys() == {"act"}
    assert from_param_space({"lr": 0.1, "env": {"id": 3}}) is None


def test_bounds_are_integers_where_the_configuration_has_one() -> None:
    space = from_bounds(
        {"batch": [8, 64], "net": {"depth": (1, 4), "dropout": [0, 1]}, "act": tune.choice(["relu", "tanh"])},
        {"batch": 32, "net": {"depth": tune.randint(1, 4)}},
    )
    assert {p.name: p.kind for p in space.numerical} == {
        "batch": "integer",
        "net.depth": "integer",
        "net.dropout": "float",
    }
    assert [p.name for p in space.categorical] == ["act"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: from_param_space({"x": tune.randn(0, 1)}), "'x': a number needs bounds, got Float drawn by"),
        (lambda: from_param_space({"x": tune.loguniform(1.0, 1.0)}), "'x': the lower bound must be below the upper"),
        (lambda: from_param_space({"x": tune.choice([("__ref_ph", "1234")])}), "'x': a choice is among numbers"),
        (lambda: from_bounds({"x": ["adam", "sgd"]}, {}), r"'x': hyperparam_bounds holds ranges.*tune.choice"),
        (lambda: from_bounds({"n": {"x": [1, 2, 3]}}, {}), r"'n.x': hyperparam_bounds holds ranges"),
        (lambda: from_bounds({}, {}), "hyperparam_bounds must be a dict of ranges, got {}"),
        (lambda: as_space(None, None, None), "param_space must leave something open, got {}"),
    ],
)
def test_what_cannot_be_tuned_is_an_error_that_names_it(make: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        make()


def test_a_space_of_ours_comes_first() -> None:
    assert as_space({"x": (0.0, 1.0)}, None, None).names == Space({"x": (0.0, 1.0)}).names
