"""Every scheduler between a population and Tune's callbacks, without Ray: nothing is lost, added or decided here."""

import pickle
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace, EqualsCondition, Float
from ray.tune.experiment import Trial
from ray.tune.search import BasicVariantGenerator

import popbandits.ray as schedulers
from popbandits import History, Population, Selection, Space, linear
from popbandits.errors import ArgumentError, HistoryError, PopbanditsWarning, RunError
from popbandits.ray.record import Record
from popbandits.ray.space import population_size
from popbandits.storage.store import Store
from tests.ray.checking import check
from tests.ray.simulation import ClassTrainable, Simulation, function_trainable
from tests.ray.trainables import PARAM_SPACE, gain
from tests.selection.calm import Calm
from tests.selection.histories import Crossed, StartsAgain

NAMES = ("PB2Fuse", "PB2Mix", "PB2Mult", "PB2Rand", "PBT")


def in_turn(names: Sequence[str], fast: Sequence[str] = NAMES) -> list[Any]:
    """Every method, kind of trainable and way to wait; every other one is slow, and so is a method that is not fast.

    What is left has each method with both kinds and both ways, and each kind with both ways.
    """
    every = product(enumerate(names), enumerate((ClassTrainable, function_trainable)), enumerate((True, False)))
    return [
        pytest.param(name, kind, synch, marks=() if name in fast and (i + j + k) % 2 == 0 else pytest.mark.slow)
        for (i, name), (j, kind), (k, synch) in every
    ]


def step(state: dict[str, Any], config: Mapping[str, Any], rng: np.random.Generator) -> float:
    state["score"] = state.get("score", 0.0) + gain(config)
    return float(state["score"])


def scheduled(name: str = "PBT", **settings: Any) -> Any:
    settings = {"time_attr": "training_iteration", "perturbation_interval": 2, "quantile_fraction": 0.5} | settings
    return getattr(schedulers, name)(**settings)


def simulation(scheduler: Any, folder: Path, **settings: Any) -> Simulation:
    settings = {"step": step, "param_space": PARAM_SPACE, "size": 4, "iterations": 12} | settings
    return Simulation(scheduler, folder=folder, **settings)


@pytest.mark.parametrize(("name", "trainable", "synch"), in_turn(NAMES))
def test_trials_train_what_the_population_decides(name: str, trainable: Any, synch: bool, tmp_path: Path) -> None:
    slots = 4 if trainable is ClassTrainable else 2
    experiment = simulation(scheduled(name, synch=synch), tmp_path, trainable=trainable, slots=slots)
    assert experiment.run()
    assert all(trial.last_result["training_iteration"] >= 12 for trial in experiment.trials)
    history = check(tmp_path / "simulated", name, synch, 4)
    if synch:
        assert sorted(o.key for o in history) == [(m, r) for m in range(4) for r in range(6)]
    assert any(o.parent is not None and o.parent[0] != o.member for o in history)


@pytest.mark.parametrize("given", ["param_space", "space"])
@pytest.mark.parametrize("synch", [True, False])
def test_trials_follow_the_schedule_of_a_start(synch: bool, given: str, tmp_path: Path) -> None:
    start = {"lr": linear(0.05, 0.01)}
    space = {"space": Space({"lr": (0.001, 0.1), "net": {"act": ["relu", "tanh"]}})} if given == "space" else {}
    scheduler = scheduled(synch=synch, start=start, **space)
    stored = pickle.dumps(scheduler)
    experiment = simulation(scheduler, tmp_path, trainable=ClassTrainable)
    while not experiment.run(results=7):
        experiment = experiment.restored(pickle.loads(stored))
    history = check(tmp_path / "simulated", "PBT", synch, 4, start={"lr": 0.05})
    assert history.space.schedules == {"lr": pytest.approx(np.linspace(0.05, 0.01, 6))}
    assert any(history.applied(o) != o.config for o in history)


@pytest.mark.parametrize("synch", [True, False])
def test_a_warm_up_is_a_share_of_what_tune_lets_a_trial_train(synch: bool, tmp_path: Path) -> None:
    scheduler = scheduled(synch=synch, perturbation_interval=1, selection=Calm(0.5))
    assert simulation(scheduler, tmp_path, trainable=ClassTrainable, iterations=12).run()
    selection = Calm(0.5, wait=3)  # A quarter of twelve; without the end it would be ten.
    history = check(tmp_path / "simulated", "PBT", synch, 4, selection=selection)
    copied = [o.round for o in history if o.parent is not None and o.parent[0] != o.member]
    assert min(copied) == 3


@pytest.mark.parametrize(
    ("selection", "trainable", "synch"),
    [
        (Crossed(), ClassTrainable, True),
        (StartsAgain(), function_trainable, False),
        # Each kind of trainable and each way to wait is above, and so is each selection.
        pytest.param(Crossed(), function_trainable, False, marks=pytest.mark.slow),
        pytest.param(StartsAgain(), ClassTrainable, True, marks=pytest.mark.slow),
    ],
)
def test_trials_go_on_with_what_a_selection_picks(
    selection: Selection, trainable: Any, synch: bool, tmp_path: Path
) -> None:
    scheduler = scheduled(synch=synch, selection=selection, perturbation_interval=1)
    stored = pickle.dumps(scheduler)
    experiment = simulation(scheduler, tmp_path, trainable=trainable, iterations=6)
    while not experiment.run(results=1):
        experiment = experiment.restored(pickle.loads(stored))
    history = check(tmp_path / "simulated", "PBT", synch, 4, selection=selection)
    again = {o.member for o in history if o.parent is None and o.round}
    assert again == (set(range(4)) if isinstance(selection, StartsAgain) else set())


@pytest.mark.parametrize(("name", "trainable", "synch"), in_turn(NAMES, ("PB2Mix", "PBT")))
def test_restored_after_every_result_nothing_changes(name: str, trainable: Any, synch: bool, tmp_path: Path) -> None:
    """With a model and without; the other methods resume in tests/population."""
    scheduler = scheduled(name, synch=synch, perturbation_interval=1)
    stored = pickle.dumps(scheduler)
    experiment = simulation(scheduler, tmp_path, trainable=trainable, iterations=6)
    while not experiment.run(results=1):
        experiment = experiment.restored(pickle.loads(stored))
    history = check(tmp_path / "simulated", name, synch, 4)
    if synch:
        assert sorted(o.key for o in history) == [(m, r) for m in range(4) for r in range(6)]


def test_a_restore_names_the_libraries_that_have_changed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "__version__", "0.1")
    scheduler = scheduled()
    stored = pickle.dumps(scheduler)
    experiment = simulation(scheduler, tmp_path)
    experiment.run(results=9)
    monkeypatch.undo()
    with pytest.warns(PopbanditsWarning, match=f"libraries have changed: numpy was 0.1 and is {np.__version__}$"):
        experiment = experiment.restored(pickle.loads(stored))
    experiment.run(results=1)
    assert experiment.restored(pickle.loads(stored)).run(), "without a warning, which would be an error"
    with Store.open(tmp_path / "simulated", readonly=True) as store:
        assert store.about["versions"]["numpy"] == np.__version__
        assert [event.kind for event in store.events()].count("edited") == 1


@pytest.mark.parametrize("synch", [True, False])
def test_a_snapshot_of_the_trials_may_be_older_than_the_record(synch: bool, tmp_path: Path) -> None:
    scheduler = scheduled(synch=synch)
    stored = pickle.dumps(scheduler)
    experiment = simulation(scheduler, tmp_path)
    experiment.run(results=5)
    snapshot = [trial.get_json_state() for trial in experiment.trials]
    experiment.run(results=20)
    told = len(History.load(tmp_path / "simulated"))
    for trial, state in zip(experiment.trials, snapshot, strict=True):
        trial.get_json_state = lambda state=state: state
    assert experiment.restored(pickle.loads(stored)).run()
    assert len(check(tmp_path / "simulated", "PBT", synch, 4)) > told


@pytest.mark.parametrize("told", [True, False])  # Tune says nothing if reset_config returns False.
@pytest.mark.parametrize("synch", [True, False])
def test_the_others_go_on_without_a_trial_that_is_given_up(synch: bool, told: bool, tmp_path: Path) -> None:
    experiment = simulation(scheduled(synch=synch), tmp_path)
    experiment.run(results=9)
    victim = next(trial for trial in experiment.trials if trial.status == Trial.RUNNING)
    experiment.fail(victim, told)
    assert experiment.run()
    history = check(tmp_path / "simulated", "PBT", synch, 4)
    assert len({o.member for o in history if o.failed}) == 1
    assert sum(o.metrics.get("training_iteration") == 12 for o in history) >= 3
    text = f"trial {victim.trial_id} {'failed' if told else 'could not be started; reset_config must return True'}"
    with Store.open(tmp_path / "simulated", readonly=True) as store:
        assert any(text in event.text for event in store.events())


def test_a_checkpoint_that_is_gone_is_not_gone_on_from(tmp_path: Path) -> None:
    experiment = simulation(scheduled(synch=True), tmp_path)
    while len(History.load(tmp_path / "simulated")) < 3:
        experiment.run(results=1)
    [best, *_] = sorted(History.load(tmp_path / "simulated"), key=lambda o: -o.score)
    (tmp_path / "simulated" / best.metrics["checkpoint_path"]).rename(tmp_path / "gone")
    assert experiment.run()
    history = check(tmp_path / "simulated", "PBT", True, 4)
    assert {o.parent for o in history if o.status == "lost"} == {best.key}


def test_fixed_parts_stay_and_inactive_hyperparameters_are_not_there(tmp_path: Path) -> None:
    space = ConfigurationSpace({"optimizer": ["sgd", "adam"], "momentum": Float("momentum", (0.0, 0.9))})
    space.add(EqualsCondition(space["momentum"], space["optimizer"], "sgd"))
    seen = []

    def watch(state: dict[str, Any], config: Mapping[str, Any], rng: np.random.Generator) -> float:
        seen.append(dict(config))
        return 1.0

    given = {"momentum": 0.1, "optimizer": "sgd", "env": {"id": 3}}
    simulation(scheduled(space=space), tmp_path, step=watch, param_space=given).run()
    assert all(config["env"] == {"id": 3} for config in seen)
    assert {(config["optimizer"], "momentum" in config) for config in seen} == {("sgd", True), ("adam", False)}


def test_burn_in_and_the_interval_say_when_it_is_decided(tmp_path: Path) -> None:
    simulation(scheduled(burn_in=5, perturbation_interval=3, synch=True), tmp_path).run()
    ends = {o.round: o.metrics["training_iteration"] for o in History.load(tmp_path / "simulated")}
    assert ends == {0: 5, 1: 8, 2: 11}
    simulation(scheduled(burn_in_period=7, perturbation_interval=3, synch=True), tmp_path / "named as in Tune").run()
    history = History.load(tmp_path / "named as in Tune" / "simulated")
    assert {o.metrics["training_iteration"] for o in history} == {7, 10}


def test_a_trainable_that_says_it_used_other_hyperparameters_is_not_believed(tmp_path: Path) -> None:
    experiment = simulation(scheduled(), tmp_path)
    [trial, *_] = experiment.trials
    asked = trial.config["lr"]
    result = {"score": 1.0, "training_iteration": 1, "applied/lr": asked * 2}
    with pytest.raises(RuntimeError, match=rf"'applied' says otherwise: lr is {asked * 2}, expected {asked}"):
        experiment.scheduler.on_trial_result(experiment, trial, result)


def test_results_without_what_is_needed_are_an_error_or_passed_over(tmp_path: Path) -> None:
    for required in (True, False):
        experiment = simulation(scheduled(require_attrs=required), tmp_path / str(required))
        call = (experiment, experiment.trials[0], {"training_iteration": 9, "loss": 1.0})
        if required:
            with pytest.raises(
                ArgumentError, match=r"must have time_attr and metric, 'training_iteration' and 'score', got \['loss'"
            ):
                experiment.scheduler.on_trial_result(*call)
        else:
            assert experiment.scheduler.on_trial_result(*call) == "CONTINUE"


def test_a_function_that_never_has_a_checkpoint_is_an_error(tmp_path: Path) -> None:
    experiment = simulation(scheduled(), tmp_path, trainable=function_trainable)
    [trial, *_] = experiment.trials
    report = experiment.scheduler.on_trial_result
    assert report(experiment, trial, {"score": 1.0, "training_iteration": 3}) == "CONTINUE"
    with pytest.raises(RunError, match="must report a checkpoint once in a perturbation_interval of 2, got none"):
        report(experiment, trial, {"score": 1.0, "training_iteration": 4})


def test_another_experiment_does_not_take_over_a_record(tmp_path: Path) -> None:
    population = Population(Space({"lr": (0.0, 1.0)}), size=1, rounds=None)
    record = Record(Store.create(tmp_path, population.space, {"trials": []}), population, lambda store: None)
    record.join("a")
    with pytest.raises(HistoryError, match=r"holds the run of 1 other trials, got trial b; .* Tuner\.restore"):
        record.join("b")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "best"}, "mode must be 'max' or 'min', got 'best'"),
        ({"perturbation_interval": 0}, "perturbation_interval must be above 0, got 0"),
        ({"space": {"x": (0, 1)}, "hyperparam_bounds": {"x": [0, 1]}}, "the search space is given once"),
    ],
)
def test_bad_settings_name_the_rule(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        scheduled(**settings)


def test_metric_and_mode_are_given_once() -> None:
    scheduler = scheduled(metric="score")
    assert not scheduler.set_search_properties("loss", "min")
    assert scheduler.set_search_properties(None, "min")
    assert scheduler.metric == "score"


def generator(**settings: Any) -> BasicVariantGenerator:
    made = BasicVariantGenerator(**settings)
    made._total_samples = 4
    return made


def test_tune_settings_that_no_population_can_have_are_refused() -> None:
    assert population_size(generator(max_concurrent=4), "PBT") == 4
    with pytest.raises(ArgumentError, match="are trained in turns, got max_concurrent_trials=2"):
        population_size(generator(max_concurrent=2), "PBT")
    endless = generator()
    endless._total_samples = 2**63 - 1
    with pytest.raises(ArgumentError, match="num_samples must be the size of the population, got -1 for PBT"):
        population_size(endless, "PBT")
    with pytest.raises(ArgumentError, match="PBT chooses every configuration itself, got search_alg="):
        population_size(object(), "PBT")
