"""SMAC3 on the slots of a population: its trials pause and resume, with a stand-in for the package."""

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ConfigSpace import Configuration

from experiments.tests.ground.climbers import Track, ground, space
from experiments.tests.ground.test_rivals import play, quality, rising
from popbandits_experiments.ground.__main__ import main
from popbandits_experiments.ground.grounds import GROUNDS
from popbandits_experiments.ground.rivals import smac3
from popbandits_experiments.ground.rivals.registry import RIVALS
from popbandits_experiments.ground.rivals.smac3 import SMAC
from popbandits_experiments.ground.rivals.trials import Trial

BRACKETS = {0: [9, 3, 1], 1: [5, 1], 2: [3]}
BUDGETS = {0: [1.11, 3.33, 9.9999999999], 1: [3.33, 10.0], 2: [10.0]}


class StandIn:
    """Asks and is told as SMAC3's facade is; a new rung may not be asked for before the last one is complete."""

    made: "list[StandIn]" = []  # noqa: RUF012

    def __init__(self, scenario: dict[str, Any], initial_design: list[Configuration], logging_level: bool):
        self.scenario, self.told = scenario, list[tuple[Any, Any]]()
        self.configs, self.trials = iter(initial_design), self._ask()
        self.made.append(self)

    @staticmethod
    def get_initial_design(scenario: Any, n_configs: int, additional_configs: list[Configuration]) -> Any:
        assert n_configs == 0
        return additional_configs

    def _ask(self) -> Iterator[Any]:
        draw = self.scenario["space"].sample_configuration
        while True:
            for bracket, counts in BRACKETS.items():
                rung = [next(self.configs, None) or draw() for _ in range(counts[0])]
                for count, budget in zip([*counts[1:], 0], BUDGETS[bracket], strict=True):
                    infos = [SimpleNamespace(config=config, budget=budget) for config in rung]
                    yield from infos
                    costs = {info.config: value.cost for info, value in self.told if info in infos}
                    assert len(costs) == len(rung)
                    rung = sorted(rung, key=lambda config: costs[config])[:count]

    def ask(self) -> Any:
        return next(self.trials)

    def tell(self, info: Any, value: Any, save: bool) -> None:
        assert not save
        self.told.append((info, value))


@pytest.fixture
def facades(monkeypatch: pytest.MonkeyPatch) -> list[StandIn]:
    given = {
        "MultiFidelityFacade": StandIn,
        "Scenario": lambda space, **rest: {"space": space, **rest},
        "determine_HB": lambda low, high, eta: {"n_configs_in_stage": BRACKETS},
        "TrialValue": lambda cost, status="good": SimpleNamespace(cost=cost, status=status),
        "StatusType": SimpleNamespace(CRASHED="crashed"),
    }
    monkeypatch.setattr(smac3, "load", lambda: given)
    monkeypatch.setattr(StandIn, "made", [])
    return StandIn.made


def test_trials_train_to_the_budgets_that_smac_asks_for_and_go_on_when_promoted(facades: list[StandIn]) -> None:
    played = play("smac", 4, 10)
    ages = [trial.age for trial in played.trials]
    assert sum(ages) == played.spent == 40
    best = sorted(range(9), key=lambda number: -rising(Trial(number, {})))
    assert [ages[number] for number in best] == [10, 3, 3, 1, 1, 1, 1, 1, 1]
    # 22 intervals for the first bracket, 15 for the first rung of the second, and what is left for the one promoted.
    assert sorted(ages[9:]) == [3, 3, 3, 3, 6]
    (facade,) = facades
    costs = [value.cost for _, value in facade.told[:9]]
    assert costs == [played.trials[0].scores[0] - trial.scores[0] for trial in played.trials[:9]]
    assert (facade.scenario["min_budget"], facade.scenario["max_budget"]) == (1, 10)
    assert not Path(facade.scenario["output_directory"]).exists()


def test_the_first_rung_is_drawn_as_that_of_the_other_rivals(facades: list[StandIn]) -> None:
    for belief in ("", "/start"):
        ours, theirs = (RIVALS[name + belief].make(space(), 4, 10, 7) for name in ("smac", "sha"))
        drawn = [scheduler.next_round() for scheduler in (ours, theirs)]
        assert [trial.config for trial in drawn[0]] == [trial.config for trial in drawn[1]]
    assert drawn[0][0].config == dict(space().get_default_configuration())


def test_a_failure_costs_smac_the_worst_score_and_trains_no_more(facades: list[StandIn]) -> None:
    """Scores are far below zero, and two are good: a failure, which is known first, must not look better than any."""
    played = play("smac", 4, 10, score=lambda trial: math.nan if trial.number < 7 else -1200.0 - trial.number)
    assert [trial.age for trial in played.trials[:9]] == [1] * 7 + [10, 3]
    values = [(value.status, round(value.cost, 9)) for _, value in facades[0].told]
    assert values[:9] == [("good", 0.0), ("good", 1.0)] + [("crashed", 1.0)] * 7
    # The third that SMAC promotes has failed: it is told so again, and nothing is trained.
    assert values[9:12] == [("good", 0.0), ("good", 1.0), ("crashed", 1.0)]
    lost = play("smac", 4, 10, score=lambda trial: math.nan)
    assert (lost.spent, len(lost.trials), lost.incumbent) == (40, 40, None)
    assert {round(value.cost, 9) for _, value in facades[1].told} == {0.0}


def test_only_trials_that_smac_may_promote_are_kept(facades: list[StandIn]) -> None:
    scheduler = RIVALS["smac"].make(space(), 4, 10, 0)
    assert isinstance(scheduler, SMAC)
    kept = []
    while trained := scheduler.next_round():
        assert all(map(scheduler.may_go_on, trained))
        scheduler.tell([rising(trial) for trial in trained])
        kept.append(sum(map(scheduler.may_go_on, scheduler.trials)))
    assert kept[:3] == [4, 8, 9]
    assert max(kept[4:]) <= 6


def test_without_its_package_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(smac3, "import_module", absent)
    monkeypatch.setitem(GROUNDS, "Pendulum", ground(Track(), 9))
    command = ["run", "--tasks", "Pendulum", "--rounds", "9", "--seeds", "0-1", "--device", "cpu"]
    assert main([*command, "--results", str(tmp_path), "--methods", "smac"]) == 1
    assert (
        "the method SMAC3 needs its package, got: No module named 'smac'; pip install smac" in capsys.readouterr().err
    )


def test_slots_change_nothing_of_what_smac_does_alone() -> None:
    pytest.importorskip("smac", reason="SMAC3 is optional")
    slots, rounds = 8, 9
    played = play("smac", slots, rounds, score=quality)
    alone = RIVALS["smac"].make(space(), slots, rounds, 0)
    assert isinstance(alone, SMAC)
    value, asked, first = smac3.load()["TrialValue"], dict[Configuration, None](), None
    while len(asked) < len(played.trials):
        info = alone._facade.ask()
        asked[info.config] = None
        score = quality(Trial(0, dict(info.config), [0.0] * (int(info.budget + smac3.ALMOST) - 1)))
        first = score if first is None else first
        alone._facade.tell(info, value(cost=first - score), save=False)
    configs = [trial.config for trial in played.trials]
    assert [config["lr"] for config in asked] == pytest.approx([config["lr"] for config in configs])
    assert [config["kind"] for config in asked] == [config["kind"] for config in configs]
    assert len(configs) > 9 + 5  # Some are the model's.
