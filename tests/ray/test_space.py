"""Ray Tune's search spaces, as ours."""

from typing import Any

import numpy as np
import pytest
from ray import tune

from popbandits import Space
from popbandits.errors import SpaceError
from popbandits.ray.merge import merge


def from_param_space(param_space: dict[str, Any]) -> Space:
    return merge("", {}, param_space, list).space


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
    assert not merge("", {}, {"lr": 0.1, "env": {"id": 3}}, list).parts


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: from_param_space({"x": tune.randn(0, 1)}), "'x': a number needs bounds, got Float drawn by"),
        (lambda: from_param_space({"x": tune.loguniform(1.0, 1.0)}), "'x': the lower bound must be below the upper"),
        (lambda: from_param_space({"x": tune.choice([("__ref_ph", "1234")])}), "'x': a choice is among numbers"),
    ],
)
def test_what_cannot_be_tuned_is_an_error_that_names_it(make: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        make()
