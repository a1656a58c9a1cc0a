"""Patient PBT: values cross over, a model chooses if it can, its selection; without its parts it is the default."""

from typing import Any

import numpy as np
import pytest

from popbandits import PBT, ArgumentError, History, NearPBT, Observation, Population, Space, Truncation
from popbandits_experiments.methods import Patient, PatientPBT

SPACE = Space({"a": (0.0, 1.0), "b": (0.0, 1.0), "label": ["x", "y", "z", "w"]})
PARENT = Observation(0, 0, {"a": 0.9, "b": 0.05, "label": "x"}, score=1.0)
START = [{"a": 0.2, "b": 1.0, "label": "y"}]


def crossed(explorer: PatientPBT, count: int = 1600) -> list[dict[str, Any]]:
    """Explore from member 0, with another member, and the worst, which is about to be replaced."""
    history = History(SPACE, size=4)
    parent = Observation(0, 0, PARENT.config, score=1.0)
    other, worst = ({"a": a, "b": a, "label": label} for a, label in ((0.3, "y"), (0.9, "w")))
    history.extend([parent, Observation(1, 0, other, score=0.0), Observation(2, 0, worst, score=-1.0)])
    rng = np.random.default_rng(0)
    return [explorer.explore(SPACE, history, [], parent, rng) for _ in range(count)]


def test_values_come_from_another_member_as_often_as_asked_for_but_never_from_the_worst() -> None:
    configs = crossed(PatientPBT(resample=0.0, resample_label=0.0, step=0.0, crossover=0.3))
    for name, theirs in (("a", 0.3), ("b", 0.3), ("label", "y")):
        values = [config[name] for config in configs]
        assert set(values) == {theirs, PARENT.config[name]}
        assert np.mean([value == theirs for value in values]) == pytest.approx(0.3, abs=0.0573)  # Five standard errors.
    before = crossed(PatientPBT(resample=0.0, resample_label=0.0, step=0.0, crossover=0.3, edition=1), 200)
    assert {config["a"] for config in before} == {0.3, 0.9, PARENT.config["a"]}
    alone = crossed(PatientPBT(resample=0.0, resample_label=0.0, step=0.0, crossover=0.0), 20)
    assert all(config == PARENT.config for config in alone)


def noisy(before: float, assignment: Any) -> float:
    """Return a level with noise."""
    return float(assignment.config["a"] + np.random.default_rng([*assignment.key, 7]).normal())


def ran(score: Any, method: NearPBT, rounds: int = 12, **settings: Any) -> Population:
    """Run a population whose score is a function of a member's past scores and its configuration."""
    population = Population(SPACE, method, size=4, rounds=rounds, seed=1, **settings)
    while not population.done:
        for assignment in population.ask():
            before = 0.0 if assignment.parent is None else population.history.find(assignment.parent).score  # type: ignore[union-attr]
            population.tell(assignment, score(before, assignment))
    return population


def modelled(population: Population) -> int:
    return sum("theta" in observation.decision for observation in population.history)


def test_the_model_chooses_where_scores_accumulate_and_only_there() -> None:
    def total(before: float, assignment: Any) -> float:
        return before + assignment.config["a"]

    assert modelled(ran(total, PatientPBT())) >= 4
    assert modelled(ran(total, PatientPBT(model=False))) == 0
    assert modelled(ran(noisy, PatientPBT())) == 0


def test_a_population_takes_the_selection_of_its_method_unless_it_is_given_one() -> None:
    assert Population(SPACE, PatientPBT()).selection == Patient()
    assert Population(SPACE, PatientPBT(), quantile=0.5).selection == Patient(quantile=0.5)
    assert Population(SPACE, PBT()).selection == Truncation()
    assert Population(SPACE, PatientPBT(), selection=Truncation(0.5)).selection == Truncation(0.5)


@pytest.mark.parametrize(("start", "concentration"), [(None, 1.0), (START, 2.0)], ids=["no start", "a start"])
def test_without_its_parts_it_is_near_pbt_to_the_last_bit(start: Any, concentration: float) -> None:
    """So what was measured of one holds for the other: stored results were renamed."""
    alone = PatientPBT(concentration=concentration, crossover=0, model=False)
    never = Patient(warm_up=0, collapse=float("inf"), adaptive=False)
    histories = [
        ran(noisy, method, 20, selection=selection, start=start, control=False).history
        for method, selection in ((NearPBT(), None), (alone, never))
    ]
    assert [o.config for o in histories[0]] == [o.config for o in histories[1]]
    assert [o.parent for o in histories[0]] == [o.parent for o in histories[1]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resample": 1.5}, "resample must be a probability between 0 and 1, got 1.5"),
        ({"crossover": 2}, "crossover must be a probability between 0 and 1, got 2"),
        ({"model": 1}, "model must be True or False, got 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        PatientPBT(**settings)
