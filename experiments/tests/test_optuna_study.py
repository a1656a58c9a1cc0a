"""A run becomes trials of Optuna, however often it is written."""

import json
from pathlib import Path
from typing import Any

import optuna
import pytest
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Normal, OrdinalHyperparameter
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState

from popbandits import History, Observation, Outcome, log, tune
from popbandits.adapters import optuna as adapter
from popbandits.errors import HistoryError
from popbandits.space import Space
from popbandits_experiments.optuna_study import write_to_optuna
from tests.engines import agents

SPACE = {"lr": log(1e-5, 1e-1), "act": [None, "relu", 3, True], "fixed": 0.5, "depth": (1, 8)}


class Walker:
    def __init__(self, seed: int) -> None:
        self.place = 0.0

    def train(self, config: dict[str, Any]) -> float:
        self.place += config["lr"]
        if config["act"] == "relu":
            raise RuntimeError("lost its way")
        return self.place

    def save(self, directory: Path) -> None:
        (directory / "place.json").write_text(json.dumps(self.place))

    def load(self, directory: Path) -> None:
        self.place = json.loads((directory / "place.json").read_text())


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def test_a_run_is_written_once_however_often_it_is_written(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'optuna.db'}"
    run: dict[str, Any] = {"directory": tmp_path / "run", "progress": False}
    tune(Walker, SPACE, population=4, rounds=3, **run)
    history = History.load(tmp_path / "run")
    partly = History(history.space, history[:5])
    assert len(write_to_optuna(partly, storage, "walkers").trials) == 5  # Killed here, say.
    for source in (tmp_path / "run", history):
        study = write_to_optuna(source, storage, "walkers")
        assert len(study.trials) == len(history) == 12
    study = optuna.load_study(storage=storage, study_name="walkers")
    for trial, observation in zip(study.trials, history, strict=True):
        assert trial.params == observation.config
        assert trial.user_attrs["popbandits"] == [observation.member, observation.round]
        assert trial.state == (TrialState.FAIL if observation.failed else TrialState.COMPLETE)
    assert {trial.state for trial in study.trials} == {TrialState.FAIL, TrialState.COMPLETE}
    assert study.best_value == max(o.score for o in history if not o.failed)
    assert study.direction.name == "MAXIMIZE"


def test_a_trial_has_the_learning_curve_that_led_to_it_and_metrics_as_attributes() -> None:
    history = History({"lr": (0.0, 1.0)}, mode="min")
    history.append(Observation(0, 0, {"lr": 0.1}, score=3.0))
    history.append(Observation(1, 0, {"lr": 0.2}, score=2.0, steps=7, metrics={"accuracy": 0.5}))
    history.append(Observation(0, 1, {"lr": 0.3}, parent=(1, 0), score_before=2.0, score=1.0))
    study = write_to_optuna(history, optuna.storages.InMemoryStorage(), "curves")
    assert [trial.intermediate_values for trial in study.trials] == [{0: 3.0}, {0: 2.0}, {0: 2.0, 1: 1.0}]
    assert study.trials[1].user_attrs["accuracy"] == 0.5
    assert study.trials[1].user_attrs["steps"] == 7
    assert study.trials[2].user_attrs["parent"] == [1, 0]
    assert study.best_params == {"lr": 0.3}


def test_nested_conditional_and_tuple_valued_spaces_are_written_by_their_dotted_names() -> None:
    space = ConfigurationSpace()
    kind, rate = Categorical("kind", ["sgd", "adam"]), Float("net.rate", (0.0, 1.0))
    space.add(kind, rate, OrdinalHyperparameter("sizes", [(1, 2), (3, 4)]), EqualsCondition(rate, kind, "sgd"))
    history = History(Space(space))
    history.append(Observation(0, 0, {"kind": "adam", "sizes": (1, 2)}, score=1.0))
    history.append(Observation(1, 0, {"kind": "sgd", "net.rate": 0.5, "sizes": (3, 4)}, score=2.0))
    study = write_to_optuna(history, optuna.storages.InMemoryStorage(), "mixed")
    assert [trial.params for trial in study.trials] == [
        {"kind": "adam", "sizes": "(1, 2)"},
        {"kind": "sgd", "net.rate": 0.5, "sizes": "(3, 4)"},
    ]


def test_a_prior_of_the_space_is_no_obstacle_and_a_constant_is_a_choice_of_one() -> None:
    near = Float("rate", (0.0, 1.0), distribution=Normal(0.2, 0.1))
    history = History(
        Space({"rate": near, "kind": "sgd"}), [Observation(0, 0, {"rate": 0.5, "kind": "sgd"}, score=1.0)]
    )
    study = write_to_optuna(history, optuna.storages.InMemoryStorage(), "priors")
    assert study.trials[0].params == {"rate": 0.5, "kind": "sgd"}
    assert study.trials[0].distributions == {
        "rate": FloatDistribution(0.0, 1.0),
        "kind": CategoricalDistribution(("sgd",)),
    }


def test_a_study_of_another_run_is_refused() -> None:
    storage = optuna.storages.InMemoryStorage()
    first, second = (History({"lr": (0.0, 1.0)}, [Observation(0, 0, {"lr": lr}, score=1.0)]) for lr in (0.1, 0.2))
    write_to_optuna(first, storage, "one")
    with pytest.raises(HistoryError, match=r"study 'one' holds another run: .* choose another study_name"):
        write_to_optuna(second, storage, "one")
    optuna.create_study(storage=storage, study_name="down", direction="minimize")
    with pytest.raises(HistoryError, match="study 'down' must maximize, as the run does, got minimize"):
        write_to_optuna(first, storage, "down")


class Named(agents.Walker):
    """Reports metrics with the names of the bridge's own attributes."""

    def train(self, config: dict[str, Any]) -> Any:
        outcome = super().train(config)
        return Outcome(outcome.score, metrics={"popbandits": "mine", "member": 99.0})  # type: ignore[union-attr]


def test_a_metric_with_a_name_of_ours_doubles_no_trial(tmp_path: Path) -> None:
    run = tune(Named, agents.space(), directory=tmp_path / "run", population=2, rounds=2, progress=False).directory
    storage = optuna.storages.InMemoryStorage()
    for _ in range(2):
        study = write_to_optuna(run, storage, "named")
    assert [trial.user_attrs["member"] for trial in study.trials] == [0, 1, 0, 1]


@pytest.mark.parametrize("mark", [5, None, "ab", [[1], [2]], {"a": 1}])
def test_trials_of_others_are_left_alone_whatever_their_attributes(mark: Any, tmp_path: Path) -> None:
    run = tune(
        agents.Walker, agents.space(), directory=tmp_path / "run", population=2, rounds=1, progress=False
    ).directory
    study = optuna.create_study(study_name="theirs", direction="maximize")
    study.add_trial(optuna.create_trial(value=1.0, user_attrs={"popbandits": mark}))
    assert len(write_to_optuna(run, study._storage, "theirs").trials) == 3


def test_a_study_of_two_objectives_is_refused(tmp_path: Path) -> None:
    run = tune(
        agents.Walker, agents.space(), directory=tmp_path / "run", population=2, rounds=1, progress=False
    ).directory
    study = optuna.create_study(study_name="two", directions=["maximize", "minimize"])
    with pytest.raises(HistoryError, match="must maximize, as the run does, got maximize and minimize; choose another"):
        write_to_optuna(run, study._storage, "two")


def test_the_former_home_warns_and_works() -> None:
    expected = "^popbandits.adapters.optuna.write_to_optuna is deprecated; use popbandits_experiments.optuna_study"
    with pytest.warns(DeprecationWarning, match=expected):
        assert adapter.write_to_optuna is write_to_optuna
