"""Every argument of Ray's schedulers does what it did, or is named in an error or a warning. Without Ray itself."""

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import tune

import popbandits.ray as schedulers
from popbandits import PBT, History, NearPBT, Truncation, log, only_falls
from popbandits.errors import ArgumentError, SpaceError
from tests.ray.simulation import Simulation

TUNED_TOO = "'act': not in hyperparam_bounds, and tuned too"
PARAM_SPACE = {"lr": tune.loguniform(1e-4, 1e-1), "act": tune.choice(["relu", "tanh", "gelu"]), "width": 64}
BOUNDS = {"lr": [1e-4, 1e-1]}


def step(state: dict[str, Any], config: Mapping[str, Any], rng: np.random.Generator) -> float:
    state["score"] = state.get("score", 0.0) + config["lr"]
    return float(state["score"])


def scheduled(name: str = "PBT", **settings: Any) -> Any:
    settings = {"time_attr": "training_iteration", "perturbation_interval": 1, "quantile_fraction": 0.5} | settings
    return getattr(schedulers, name)(**settings)


def run(scheduler: Any, folder: Path, param_space: Mapping[str, Any] = PARAM_SPACE, restored: bool = False) -> History:
    """The history of four trials, six intervals each; with all of it restored after every result."""
    stored = pickle.dumps(scheduler) if restored else b""
    simulation = Simulation(scheduler, step, param_space, folder, size=4, iterations=6)
    while not simulation.run(results=1 if restored else None):
        simulation = simulation.restored(pickle.loads(stored))
    return History.load(folder / "simulated")


def test_bounds_left_behind_keep_the_log_scale_and_tune_the_choice(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=TUNED_TOO):
        left = run(scheduled(hyperparam_bounds=BOUNDS), tmp_path / "left")
    without = run(scheduled(), tmp_path / "without")
    assert repr(left.space) == repr(without.space)
    assert [(o.key, o.config) for o in left] == [(o.key, o.config) for o in without]


def test_trials_begin_where_param_space_begins(tmp_path: Path) -> None:
    given = {"lr": tune.loguniform(1e-3, 1e-2), "act": "tanh", "depth": tune.sample_from(lambda spec: 3), "tilt": 0.5}
    bounds = {"lr": [1e-5, 1.0], "depth": [1, 8], "tilt": [0, 1], "decay": [0, 1]}
    scheduler = scheduled(hyperparam_bounds=bounds, start=[{"lr": 0.5, "depth": 7, "tilt": 0.1, "decay": 0.2}])
    with pytest.warns(UserWarning, match=r"'lr': .*reaches beyond") as said:
        history = run(scheduler, tmp_path / "started", given)
    assert len(said) == 1
    first = {o.member: o.config for o in history if o.round == 0}
    assert first[0] == {"lr": 0.5, "depth": 7, "tilt": 0.1, "decay": 0.2}
    assert [first[member]["depth"] for member in (1, 2, 3)] == [3, 3, 3]
    assert all(1e-3 <= first[member]["lr"] <= 1e-2 for member in (1, 2, 3))
    assert {o.config["depth"] for o in history} > {3, 7}
    with pytest.warns(UserWarning, match="reaches beyond"):
        history = run(scheduled(hyperparam_bounds=bounds), tmp_path / "not", given)
    first = {o.member: o.config for o in history if o.round == 0}
    assert first[0]["tilt"] == 0.5  # what param_space holds is for one of them
    assert len({config["tilt"] for config in first.values()}) == 4


def test_trials_begin_with_the_winners_of_a_past_run(tmp_path: Path) -> None:
    past = run(scheduled(), tmp_path / "past")
    history = run(scheduled(start=tmp_path / "past" / "simulated"), tmp_path / "new")
    first = next(o for o in history if o.key == (0, 0))
    assert past.best is not None
    assert first.config == past.best.config
    assert first.decision == {"start": str(tmp_path / "past" / "simulated"), "from": list(past.best.key)}


@pytest.mark.parametrize("restored", [False, True])
def test_what_is_drawn_and_not_tuned_is_copied_along_with_the_weights(restored: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    drawn = {"depth": tune.sample_from(lambda spec: int(rng.integers(100))), "seed": tune.grid_search([1, 2, 3, 4])}
    space = {"lr": tune.uniform(0, 1), "net": {**drawn, "sizes": tune.sample_from(lambda spec: [int(rng.integers(9))])}}

    def train(state: dict[str, Any], config: Mapping[str, Any], rng: np.random.Generator) -> float:
        assert state.setdefault("net", config["net"]) == config["net"]  # The weights are of this network.
        return step(state, config, rng)

    scheduler = scheduled()
    stored = pickle.dumps(scheduler)
    simulation = Simulation(scheduler, train, space, tmp_path, size=1, iterations=6, slots=4)  # The grid makes four.
    while not simulation.run(results=1 if restored else None):
        simulation = simulation.restored(pickle.loads(stored))
    history = History.load(tmp_path / "simulated")
    assert any(o.parent is not None and o.parent[0] != o.member for o in history)
    assert len({trial.config["net"]["seed"] for trial in simulation.trials}) < 4
    assert {o.metrics["config/net/seed"] for o in history if o.round == 0} == {1, 2, 3, 4}


def test_mutations_are_tuned_and_stay_in_their_lists(tmp_path: Path) -> None:
    mutations = {"lr": tune.loguniform(1e-4, 1e-1), "net": {"width": [16, 32, 64]}, "act": ["relu", "tanh"]}
    scheduler = scheduled(hyperparam_mutations=mutations, resample_probability=0.0, perturbation_factors=(2.0, 0.5))
    history = run(scheduler, tmp_path, {"net": {"width": 32, "depth": 2}, "lr": 1e-2, "act": "tanh"})
    assert history.find((0, 0)).config == {"lr": 1e-2, "net": {"width": 32}, "act": "tanh"}
    widths, rates = [16, 32, 64], []
    for o in history:
        if o.parent is not None and o.parent[0] != o.member:
            before = history.find(o.parent).config
            moved = abs(widths.index(o.config["net"]["width"]) - widths.index(before["net"]["width"]))
            assert moved == 1 or o.config["net"]["width"] in (16, 64)
            rates.append(o.config["lr"] / before["lr"])
    assert rates
    assert all(rate == pytest.approx(2.0) or rate == pytest.approx(0.5) or rate == 1.0 for rate in rates)


def test_what_ray_sets_of_pbt_is_set_here() -> None:
    made = scheduled(resample_probability=0.1, perturbation_factors=(1.5, 0.5))._explorer
    assert made == PBT(factors=(0.5, 1.5), resample=0.1)
    assert scheduled("NearPBT", resample_probability=0.1)._explorer == NearPBT(resample=0.1)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "PB2Fuse",
            {"resample_probability": 0.25},
            "PB2Fuse has no use for resample_probability=0.25: a model chooses",
        ),
        ("PB2Mix", {"perturbation_factors": (1.2, 0.8)}, r"PB2Mix has no use for perturbation_factors=\(1.2, 0.8\)"),
        ("NearPBT", {"perturbation_factors": (1.2, 0.8)}, r"NearPBT has no use for perturb.*or use PBT"),
        ("PBT", {"log_config": True}, r"log_config=True: no pbt_policy_\*.txt is written.*Result"),
    ],
)
def test_what_has_nothing_to_set_is_said(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.warns(UserWarning, match=message) as said:
        scheduled(name, **settings)
    assert said[0].filename == __file__.replace(".pyc", ".py")  # where the user's own call is
    assert scheduled(name, log_config=False) is not None


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"quantile_fraction": 0},
            ArgumentError,
            "quantile_fraction must be above 0 and at most 0.5, got 0; to replace",
        ),
        ({"quantile_fraction": 0.6}, ArgumentError, "quantile_fraction must be above 0 and at most 0.5, got 0.6"),
        ({"selection": Truncation(0.25)}, ArgumentError, "quantile_fraction must be that of selection, 0.25, got 0.5"),
        ({"perturbation_factors": (1.2, 1.1)}, ArgumentError, "perturbation_factors must be one below and one above 1"),
        (
            {"perturbation_factors": 1.2},
            ArgumentError,
            r"perturbation_factors must be .* got 1.2; \(1.2, 0.8\) is usual",
        ),
        ({"resample_probability": 2}, ArgumentError, "resample must be a probability between 0 and 1, got 2"),
        ({"hyperparam_bounds": 60.0}, SpaceError, "hyperparam_bounds must be a dict of ranges, got 60.0"),
        (
            {"hyperparam_bounds": BOUNDS, "hyperparam_mutations": BOUNDS},
            ArgumentError,
            "hyperparam_bounds and hyperparam_m",
        ),
        ({"hyperparam_mutations": BOUNDS, "space": {"lr": (0, 1)}}, ArgumentError, "the search space is given once"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(settings: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        scheduled(**settings)


def halve(config: dict[str, Any]) -> dict[str, Any]:
    """As users write it: constants are there, and what is tuned may be changed."""
    config["lr"] = min(config["lr"], config["net"]["width"] / 6400)
    config["depth"] = float(config["depth"] // 2 * 2)
    return config


def test_a_custom_explore_fn_has_the_last_word_and_it_is_on_record(tmp_path: Path) -> None:
    given = {"lr": tune.loguniform(1e-4, 1e-1), "depth": tune.randint(2, 9), "net": {"width": 64}, "fold": {"id": 3}}
    histories = {}
    for restored in (False, True):
        scheduler = scheduled(custom_explore_fn=halve, synch=True)
        histories[restored] = history = run(scheduler, tmp_path / str(restored), given, restored)
        new = [o for o in history if o.parent is not None and o.parent[0] != o.member]
        assert new
        assert all(o.config["lr"] <= 0.01 and o.config["depth"] % 2 == 0 for o in new)
        assert {type(o.config["depth"]) for o in history} == {int}
        assert any(o.config["lr"] > 0.01 or o.config["depth"] % 2 for o in history if o.round == 0)  # as in Ray
    again, once = ({o.key: (o.config, o.parent) for o in histories[restored]} for restored in (True, False))
    assert again == once


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda config: None, ArgumentError, "custom_explore_fn must return a configuration, a dict, got None"),
        (
            lambda config: config | {"width": 32},
            ArgumentError,
            "tuned, act, lr, and nothing else, but it changed 'width'",
        ),
        (lambda config: config | {"new": 1}, ArgumentError, "it changed 'new'; compute that in the trainable"),
        (
            lambda config: config | {"act": "selu"},
            SpaceError,
            "custom_explore_fn must return a configuration of the spa",
        ),
        (
            lambda config: config | {"lr": 5},
            UserWarning,
            r"'lr': custom_explore_fn must stay in \[0.0001, 0.1\], got 5",
        ),
    ],
)
def test_a_custom_explore_fn_stays_in_the_space(function: Any, error: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):  # Warnings are errors in these tests.
        run(scheduled(custom_explore_fn=function), tmp_path)


def test_a_message_names_the_parameter_and_both_values(tmp_path: Path) -> None:
    with pytest.raises(
        SpaceError, match=re.escape("'lr': hyperparam_bounds has [0.5, 1], and param_space has the range")
    ):
        run(scheduled(hyperparam_bounds={"lr": [0.5, 1.0]}), tmp_path)


@pytest.mark.parametrize("restored", [False, True])
def test_a_number_that_only_falls_does_so_after_a_custom_explore_fn_too(restored: bool, tmp_path: Path) -> None:
    space = {"lr": only_falls(log(1e-4, 1e-1)), "act": ["relu", "tanh"]}
    scheduler = scheduled(space=space, custom_explore_fn=highest_rate)
    history = run(scheduler, tmp_path, {"act": "relu"}, restored)
    copied = [o for o in history if o.parent is not None and o.parent[0] != o.member]
    assert copied
    assert all(o.config["lr"] == history.find(o.parent).config["lr"] for o in copied)


def highest_rate(config: dict[str, Any]) -> dict[str, Any]:
    return config | {"lr": 0.1}
