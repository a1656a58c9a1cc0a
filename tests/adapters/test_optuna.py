"""Optuna: its distributions become a space."""

from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from popbandits.adapters.optuna import space_from_optuna
from popbandits.errors import SpaceError

DISTRIBUTIONS = {
    "lr": FloatDistribution(1e-5, 1e-1, log=True),
    "dropout": FloatDistribution(0.0, 0.5, step=0.25),
    "depth": IntDistribution(1, 8),
    "width": IntDistribution(16, 1024, log=True),
    "batch": IntDistribution(8, 24, step=8),
    "act": CategoricalDistribution((None, "relu", 3, True)),
    "fixed": FloatDistribution(0.5, 0.5),
    "only": CategoricalDistribution(("adam",)),
}
DESCRIBED = (
    "Space(\n  act: one of None, 'relu', 3, True\n  batch: 8 < 16 < 24\n  depth: integer [1, 8]\n"
    "  dropout: 0.0 < 0.25 < 0.5\n  fixed: always 0.5\n  lr: float [1e-05, 0.1] log\n  only: always 'adam'\n"
    "  width: integer [16, 1024] log\n)"
)


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def test_every_distribution_becomes_a_hyperparameter() -> None:
    assert repr(space_from_optuna(DISTRIBUTIONS)) == DESCRIBED


def test_a_study_and_a_trial_have_the_space_that_their_objective_suggested() -> None:
    def objective(trial: optuna.Trial) -> float:
        if trial.suggest_categorical("kind", ["sgd", "adam"]) == "sgd":
            trial.suggest_float("momentum", 0, 1)
        return trial.suggest_float("lr", 1e-4, 1e-1, log=True) + trial.suggest_int("depth", 1, 3)

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=8)
    expected = "kind: one of 'sgd', 'adam'\n  lr: float [0.0001, 0.1] log"
    assert expected in repr(space_from_optuna(study))
    assert expected in repr(space_from_optuna(study.best_trial))
    assert "momentum" in repr(space_from_optuna(study))
    study.add_trial(optuna.create_trial(value=0, params={"depth": 9}, distributions={"depth": IntDistribution(1, 9)}))
    with pytest.raises(SpaceError, match="'depth': the trials of a study must agree on a range"):
        space_from_optuna(study)


def test_many_steps_are_thinned_out_evenly() -> None:
    levels = space_from_optuna({"x": FloatDistribution(0.0, 1.0, step=0.001)}).configuration_space["x"].sequence
    assert len(levels) == 256
    assert (levels[0], levels[-1]) == (0.0, 1.0)


def test_what_is_no_space_is_refused() -> None:
    with pytest.raises(SpaceError, match=r"'lr': a distribution of Optuna is expected, got \(0.1, 1.0\)"):
        space_from_optuna({"lr": (0.1, 1.0)})
    with pytest.raises(SpaceError, match="a study or trial must have suggested something, got no distributions"):
        space_from_optuna(optuna.create_study())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "distributions by name, a study or a trial of Optuna are expected, got None"),
        ([FloatDistribution(0, 1)], r"distributions by name, .*, got \[FloatDistribution"),
        ({"a": IntDistribution(0, 10**30)}, "'a': IntDistribution.* cannot be searched: .*; narrow its range"),
        ({"a": FloatDistribution(5e-324, 1, log=True)}, "'a': FloatDistribution.* cannot be searched"),
        ({1: FloatDistribution(0, 1)}, "1: FloatDistribution.* cannot be searched: Name must be a string"),
    ],
)
def test_what_cannot_be_a_space_is_named(source: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        space_from_optuna(source)
