"""Spaces of PPO: what they hold, which inputs belong to which optimizer, and that the learner takes all of it."""

import pytest
from ConfigSpace import ConfigurationSpace

from popbandits.space import Space
from popbandits_experiments.batched.optimizers import coefficients
from popbandits_experiments.batched.spaces import DEFAULTS, narrow, shifted, wide

CHILDREN = {"adam": "beta1", "rmsprop": "smoothing", "sgd": "momentum"}


@pytest.mark.parametrize("space", [wide(), shifted(), narrow()], ids=["wide", "shifted", "narrow"])
def test_a_default_configuration_is_that_of_the_libraries(space: ConfigurationSpace) -> None:
    assert dict(space.get_default_configuration()) == DEFAULTS


@pytest.mark.parametrize("space", [wide(), shifted(), narrow()], ids=["wide", "shifted", "narrow"])
def test_a_configuration_has_the_inputs_of_its_optimizer_and_no_others(space: ConfigurationSpace) -> None:
    space.seed(0)
    common = set(DEFAULTS) - {"beta1"}
    seen = set()
    for config in space.sample_configuration(60):
        assert set(config) == common | {CHILDREN[config["optimizer"]]}
        assert all(isinstance(value, float | int) for value in coefficients(config).values())
        seen.add(config["optimizer"])
    assert seen == set(space["optimizer"].choices)


def test_an_experts_ranges_lie_within_a_strangers() -> None:
    stranger, expert = wide(), narrow()
    assert set(expert) < set(stranger)
    for name in expert:
        if hasattr(expert[name], "lower"):
            assert stranger[name].lower <= expert[name].lower < expert[name].upper <= stranger[name].upper
            assert stranger[name].log == expert[name].log
        else:
            values = [getattr(space[name], "choices", None) or space[name].sequence for space in (expert, stranger)]
            assert set(values[0]) <= set(values[1])


@pytest.mark.parametrize("space", [wide(), shifted(), narrow()], ids=["wide", "shifted", "narrow"])
def test_popbandits_encodes_the_space_and_gives_every_input_back(space: ConfigurationSpace) -> None:
    space.seed(1)
    configs = [dict(config) for config in space.sample_configuration(20)]
    ours = Space(space)
    for found, config in zip(ours.decode(ours.encode(configs)), configs, strict=True):
        assert found == {
            name: pytest.approx(value) if isinstance(value, float) else value for name, value in config.items()
        }
