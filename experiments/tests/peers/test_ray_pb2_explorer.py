"""Ray Tune's PB2 as a method of the benchmark: what it decides is what Ray's own scheduler would."""

import math
import sys
from typing import Any

import numpy as np
import pytest
from ConfigSpace import Categorical, ConfigurationSpace, Float, Integer
from ray.tune.experiment import Trial
from ray.tune.schedulers import pb2
from ray.tune.schedulers.pbt import _PBTTrialState

from experiments.tests.ground import climbers
from popbandits.errors import ArgumentError
from popbandits.population import Population
from popbandits.population.population import EXPLORE
from popbandits_experiments.contracts import EXPLORER_CHECKS, spaces
from popbandits_experiments.ground.methods import METHODS
from popbandits_experiments.peers.ray_pb2_explorer import RayPB2

BOUNDS = {"decay": (0.0, 0.125), "lr": (2.0**-13, 1.0)}  # In our order; exact in 32 bits, to which Ray rounds.
SIZE, ROUNDS = 8, 4


def score(config: dict[str, Any], round_: int) -> float:
    return round_ - abs(math.log10(config["lr"]) + 2) - 10 * config["decay"]


@pytest.mark.filterwarnings("ignore")  # Ray's own, and those of what it calls
def test_it_decides_what_rays_scheduler_decides() -> None:
    """Ray's scheduler is told the same scores, and asked for the same replacements."""
    space = ConfigurationSpace()
    space.add(Float("lr", BOUNDS["lr"], log=True), Float("decay", BOUNDS["decay"]), Integer("epochs", (1, 5)))
    space.add(Categorical("kind", ["plain", "heavy"]))
    population = Population(space, RayPB2(), SIZE, ROUNDS, seed=3)
    scheduler = pb2.PB2("time", "score", "max", hyperparam_bounds={name: [*each] for name, each in BOUNDS.items()})
    trials = [Trial("climber", stub=True, trial_id=str(member)) for member in range(SIZE)]
    changed = 0
    while not population.done:
        asked = sorted(population.ask(), key=lambda a: a.member)
        if asked[0].round:
            np.random.seed(population._rng(EXPLORE, asked[0].round).integers(2**32))  # noqa: NPY002
        configs = {a.member: {name: a.config[name] for name in BOUNDS} for a in asked}
        for a in asked:
            if a.parent is not None and a.parent[0] != a.member:
                expected, _ = scheduler._get_new_config(trials[a.member], trials[a.parent[0]])
                assert configs[a.member] == expected
                parent = population.history.find(a.parent)
                assert parent is not None
                assert {name: a.config[name] for name in ("epochs", "kind")} == {
                    name: parent.config[name] for name in ("epochs", "kind")
                }
                changed += expected != {name: parent.config[name] for name in BOUNDS}
        for a, trial in zip(asked, trials, strict=True):
            trial.config = configs[a.member]
            population.tell(a, score(a.config, a.round))
            result = {"time": a.round + 1, "score": score(a.config, a.round)}
            scheduler._save_trial_state(_PBTTrialState(trial), a.round + 1, result, trial)
    assert changed >= 2 * (ROUNDS - 2) - 1  # Two in each round; Ray has nothing to learn from in the first.


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("decides by its arguments alone", "nested conditions"),
        pytest.param("leaves its arguments alone", "a nested dict", marks=pytest.mark.slow),  # The first would notice.
        ("proposes legal configurations", "forbidden clauses"),
        pytest.param("proposes legal configurations", "categoricals only", marks=pytest.mark.slow),  # Nothing to model.
    ],
)
def test_it_keeps_the_contract_of_explorers(rule: str, kind: str) -> None:
    EXPLORER_CHECKS[rule](RayPB2(), spaces()[kind])


def test_children_that_are_inactive_stay_so_and_failed_intervals_teach_nothing() -> None:
    population = Population(climbers.space(), RayPB2(), 4, 5, seed=1)
    while not population.done:
        for a in population.ask():
            population.tell(a, math.nan if (a.member, a.round) == (2, 1) else score(a.config, a.round))
            assert ("momentum" in a.config) == (a.config["kind"] == "heavy")
    assert [o.key for o in population.history if o.failed] == [(2, 1)]
    assert not any("fallback" in o.decision for o in population.history)


def test_without_ray_the_method_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "popbandits_experiments.peers.ray_pb2_explorer")
    monkeypatch.setitem(sys.modules, "ray.tune.schedulers", None)
    with pytest.raises(
        ArgumentError, match=r"Ray Tune's PB2, numbers only needs Ray Tune, .*; pip install 'popbandits\[bench\]'"
    ):
        METHODS["ray-pb2"].make()
    monkeypatch.undo()
    assert isinstance(METHODS["ray-pb2"].make(), RayPB2)
