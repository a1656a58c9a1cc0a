"""What the first members begin with: given configurations, the space's defaults, or a past run's winners."""

from pathlib import Path
from typing import Any

import ConfigSpace as cs
import numpy as np
import pytest

from popbandits import (
    PBT,
    ArgumentError,
    Assignment,
    History,
    Observation,
    Population,
    RandomSearch,
    Space,
    SpaceError,
    linear,
    log,
    tune,
)
from popbandits.explorers import Proposal
from popbandits.population.start import from_record, resolve, to_record
from popbandits.run.experiment import read_start
from popbandits_experiments.contracts import spaces
from tests.population.driving import MIXED, SPACE, play

SPACES = spaces()
GIVEN = [{"x": 0.25, "h": "c"}, {"x": 0.75, "h": "a"}]


def first(start: Any, space: Any = SPACE, size: int = 4, **settings: Any) -> list[Any]:
    """Configurations of the first round, and what is recorded of each, by member."""
    assigned = Population(space, PBT(), size=size, start=start, **settings).ask()
    return [(a.config, a.decision) for a in assigned]


# Given configurations


@pytest.mark.parametrize("synchronous", [True, False])
def test_the_first_members_begin_with_what_is_given_and_the_others_as_without_it(synchronous: bool) -> None:
    begun = first(GIVEN, synchronous=synchronous)
    assert begun[:2] == [(config, {"start": "given"}) for config in GIVEN]
    assert begun[2:] == first(None, synchronous=synchronous)[2:]
    assert first([], synchronous=synchronous) == first(None, synchronous=synchronous)


def test_one_configuration_needs_no_list() -> None:
    assert first(GIVEN[0]) == first(GIVEN[:1])
    assert first(GIVEN[0])[0] == (GIVEN[0], {"start": "given"})


def test_a_fresh_start_later_on_is_the_methods_own() -> None:
    population = play(Population(SPACE, RandomSearch(), size=2, rounds=3, explore="all", start=GIVEN))
    configs = [o.config for o in population.history]
    assert configs[:2] == GIVEN
    assert not [config for config in configs[2:] if config in GIVEN]
    assert [o.decision for o in population.history] == [{"start": "given"}] * 2 + [{}] * 4


def test_what_is_left_out_takes_the_spaces_default() -> None:
    space = {"net": {"depth": (1, 5), "act": ["relu", "tanh"]}, "lr": cs.Float("lr", (0.0, 1.0), default=0.1), "k": 3}
    nested, flat = [{"net": {"act": "tanh"}}], [{"net.act": "tanh"}]
    [(config, _), *_] = first(nested, space)
    assert config == {"net": {"depth": 3, "act": "tanh"}, "lr": 0.1, "k": 3}
    assert first(flat, space) == first(nested, space)


class Adam:
    """An optimizer, as a label."""

    def __init__(self, parameters: Any, lr: float):
        raise AssertionError("a label is not called")


def test_a_function_or_a_class_that_is_a_label_is_no_schedule() -> None:
    space = {"optimizer": [dict, Adam], "act": [np.tanh, np.sin], "loss": [np.square], "lr": (0.0, 1.0)}
    given = {"optimizer": Adam, "act": np.sin, "loss": np.square, "lr": linear(0.5, 0.1)}
    population = Population(space, PBT(), size=2, rounds=3, start=given)
    assert population.ask()[0].config == given | {"lr": 0.5}
    assert population.space.schedules.keys() == {"lr"}


@pytest.mark.parametrize("rounds", [3, None])
@pytest.mark.parametrize("other", [dict, Adam, np.cos, lambda progress: 1.0])
def test_a_function_or_a_class_that_is_no_label_is_not_called(other: Any, rounds: int | None) -> None:
    space = {"optimizer": [list, set], "act": ["relu", "tanh"]}
    with pytest.raises(SpaceError, match=r"^start\[0\]: 'optimizer': the value must be one of \(<class 'list'>, <cl"):
        Population(space, PBT(), rounds=rounds, start={"optimizer": other})
    with pytest.raises(SpaceError, match=r"^start\[0\]: 'act': the value must be one of \('relu', 'tanh'\), got <"):
        Population(space, PBT(), rounds=rounds, start={"act": other})
    with pytest.raises(
        SpaceError, match=r"'optimiser': a value needs a parameter, got .*; did you mean 'optimizer'\?$"
    ):
        Population(space, PBT(), rounds=rounds, start={"optimiser": other})


def test_a_parameter_that_is_inactive_takes_no_default() -> None:
    assert [config for config, _ in first([{"optimizer": "none"}, {"optimizer": "sgd"}], MIXED, size=2)] == [
        {"optimizer": "none", "clip": pytest.approx(0.55)},
        {"optimizer": "sgd", "clip": pytest.approx(0.55), "momentum": pytest.approx(0.495), "warmup": 5},
    ]


def test_a_user_who_changes_what_was_given_or_asked_for_changes_nothing_else() -> None:
    given = {"x": 0.25, "h": "c"}
    population = Population(SPACE, PBT(), size=2, start=[given])
    given["x"] = 0.5
    assignment = population.ask()[0]
    assignment.config["x"] = 0.5
    population.tell(assignment, 1.0)
    assert population.history[0].config == {"x": 0.25, "h": "c"}


# Defaults


def test_the_defaults_are_one_members() -> None:
    space = {"x": (0.0, 1.0), "lr": cs.Float("lr", (1e-4, 1.0), log=True), "n": (1, 9), "h": ["b", "a"]}
    begun = first("defaults", space)
    assert begun[0] == ({"x": 0.5, "lr": pytest.approx(0.01), "n": 5, "h": "b"}, {"start": "defaults"})
    assert begun[1:] == first(None, space)[1:]
    assert len(first("defaults", space, size=1)) == 1


@pytest.mark.parametrize("name", SPACES)
def test_the_defaults_are_those_of_configspace_on_every_space(name: str) -> None:
    space = SPACES[name]
    [proposal] = resolve("defaults", space, 4)
    assert space.check(proposal.config) == dict(space.configuration_space.get_default_configuration())


LR = cs.Float("lr", (1e-4, 1.0), log=True, default=3e-4)
NAMED = [
    {"lr": log(1e-4, 1.0, default=3e-4), "h": ["b", "a"]},
    {"lr": LR, "h": ["b", "a"]},
    cs.ConfigurationSpace({"h": cs.Categorical("h", ["b", "a"], default="a")}),
    {"n": cs.Integer("n", (1, 9), default=2)},
    {"o": cs.OrdinalHyperparameter("o", [1, 2, 4], default_value=4)},
]


@pytest.mark.parametrize("space", NAMED)
def test_a_default_that_a_space_names_is_the_start_unless_the_user_says_no(space: Any) -> None:
    assert first(None, space) == first("defaults", space)
    begun = first("random", space)
    assert begun[1:] == first(None, space)[1:]
    assert not any(decision for _, decision in begun)
    assert begun == first([], space)


@pytest.mark.parametrize("name", SPACES)
def test_without_a_named_default_first_configurations_are_random(name: str) -> None:
    space = SPACES[name]
    named = name == "forbidden clauses"  # The default of a range would be forbidden there.
    assert first(None, space) == first("defaults" if named else "random", space)


# A past run


def past(*values: float, space: Any = SPACE, mode: Any = "max", **fixed: Any) -> History:
    """A run of one member that gets better, with these values of x in turn."""
    history = History(space, mode=mode, size=1)
    for round_, x in enumerate(values):
        parent = (0, round_ - 1) if round_ else None
        config = {"x": x, "h": "b"} | fixed
        history.append(Observation(0, round_, config, parent, score=history.sign * round_))
    return history


@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_past_run_gives_its_last_different_winners_newest_first(mode: Any) -> None:
    history = past(0.1, 0.2, 0.2, 0.3, 0.2, 0.4, mode=mode)
    begun = first(history, mode=mode)
    assert [config["x"] for config, _ in begun[:3]] == [0.4, 0.2, 0.3]
    assert [decision for _, decision in begun[:3]] == [
        {"start": "history", "from": [0, 5]},
        {"start": "history", "from": [0, 4]},
        {"start": "history", "from": [0, 3]},
    ]
    assert begun[3] == first(None, mode=mode)[3]


def test_what_did_not_win_is_not_taken() -> None:
    history = History(SPACE, mode="max", size=2)
    for member, x in enumerate((0.1, 0.9)):
        history.append(Observation(member, 0, {"x": x, "h": "a"}, score=x))
    history.append(Observation(0, 1, {"x": 0.8, "h": "a"}, (1, 0), score=1.0))
    history.append(Observation(1, 1, {"x": 0.7, "h": "a"}, (1, 0), score=0.5))
    assert [proposal.config["x"] for proposal in resolve(history, Space(SPACE), 8)] == [0.8, 0.9]


def test_a_lucky_score_is_not_followed() -> None:
    history = History(SPACE, mode="max", size=2)
    rng, scores = np.random.default_rng(0), [0.0, 0.0]
    for round_ in range(30):
        for member, x in enumerate((0.1, 0.9)):
            lucky = (member, round_) == (0, 20)
            score = round_ * (1 + 0.2 * member) + rng.normal(0, 5) + 25 * lucky
            before = {"parent": (member, round_ - 1), "score_before": scores[member]} if round_ else {}
            history.append(Observation(member, round_, {"x": x, "h": "a"}, score=score, **before))
            scores[member] = score
    assert history.best is not None
    assert history.best.key == (0, 20)
    assert first(history)[0] == ({"x": 0.9, "h": "a"}, {"start": "history", "from": [1, 29]})


def test_a_folder_is_followed_as_its_evaluations_decided(tmp_path: Path) -> None:
    class Liar:
        x = 0.0

        def train(self, config: Any) -> float:
            self.x = config["x"]
            return self.x  # The higher the better, says its score; its evaluation says the reverse.

        def evaluate(self, seed: int) -> float:
            return -self.x

        def save(self, directory: Path) -> None:
            (directory / "x").write_text(str(self.x))

        def load(self, directory: Path) -> None:
            self.x = float((directory / "x").read_text())

    start = [{"x": 0.1}, {"x": 0.9}]
    settings: Any = {"start": start, "control": True, "evaluations": 2, "progress": False}
    result = tune(Liar, SPACE, population=2, rounds=1, directory=tmp_path, **settings)
    assert result.best.key == (1, 0)
    assert first(read_start(tmp_path))[0] == ({"x": 0.1, "h": "a"}, {"start": str(tmp_path), "from": [0, 0]})


def test_a_population_of_one_begins_with_the_newest_winner() -> None:
    assert [config["x"] for config, _ in first(past(0.1, 0.2), size=1)] == [0.2]


def test_a_folder_is_as_good_as_its_history(tmp_path: Path) -> None:
    history = past(0.1, 0.2)
    history.save(tmp_path)
    for folder in (tmp_path, str(tmp_path)):
        begun = first(read_start(folder))
        assert begun[0] == ({"x": 0.2, "h": "b"}, {"start": str(tmp_path), "from": [0, 1]})
        assert [config for config, _ in begun] == [config for config, _ in first(history)]
        with pytest.warns(DeprecationWarning, match=r"is deprecated, got '.*'; give start=History.load\('.*'\)$"):
            assert first(folder) == begun


def test_only_a_folder_is_read() -> None:
    for start in (None, "defaults", "random", GIVEN, History(SPACE), 4):
        assert read_start(start) is start  # type: ignore[arg-type]


def test_a_population_names_the_folder_that_holds_no_run() -> None:
    with pytest.raises(
        ArgumentError, match=r"^start must be .*, got 'default': default holds no run: there is no such folder"
    ):
        first("default")


def test_a_run_on_another_space_is_translated() -> None:
    old = {"x": (0.0, 9.0), "h": ["a", "b"], "n": (0.0, 9.0), "gone": (0.0, 1.0), "task": "easy"}
    new = {"x": (0.5, 1.0), "h": ["b", "z"], "n": (1, 4), "more": (0.0, 1.0), "task": "hard"}
    begun = first(past(0.75, 3.0, space=old, n=2.6, gone=0.1, task="easy"), new)
    unchanged = {"h": "b", "n": 3, "more": 0.5, "task": "hard"}
    assert begun[0] == (
        {"x": 1.0, **unchanged},
        {"start": "history", "from": [0, 1], "clipped": {"x": 3.0, "n": 2.6}},
    )
    assert begun[1] == ({"x": 0.75, **unchanged}, {"start": "history", "from": [0, 0], "clipped": {"n": 2.6}})


def test_configurations_that_the_new_space_makes_equal_are_one() -> None:
    history = past(2.0, 3.0, 0.5, space={"x": (0.0, 9.0), "h": ["b"]})
    assert [proposal.config["x"] for proposal in resolve(history, Space(SPACE), 9)] == [0.5, 1.0]


def test_what_a_condition_of_the_new_space_switches_off_is_dropped() -> None:
    made = cs.ConfigurationSpace({"x": (0.0, 1.0), "h": ["a", "b"], "y": (0.0, 1.0)})
    made.add(cs.EqualsCondition(made["x"], made["h"], "a"), cs.EqualsCondition(made["y"], made["h"], "b"))
    [proposal] = resolve(past(7.0, 0.2, space={"x": (0.0, 9.0), "h": ["a", "b"]}), Space(made), 4)
    assert proposal == Proposal({"h": "b", "y": 0.5}, {"start": "history", "from": [0, 1]})


def test_a_record_gives_the_same_start_again() -> None:
    space = Space({"kernel": [(3, 3), None, True], "net": {"x": (0.0, 1.0)}})
    start = resolve([{"kernel": (3, 3)}, {"kernel": True, "net.x": 0.125}], space, 4)
    again = from_record(to_record(start))
    assert again == start
    assert resolve(again, space, 4) == start
    assert resolve([Proposal({"kernel": (3, 3)})], space, 4) == start[:1], "a proposal may leave its origin out"


# A run with a start depends on the history, the seed and the start alone


@pytest.mark.parametrize("explore", ["replaced", "all"])
@pytest.mark.parametrize("synchronous", [True, False])
def test_a_run_with_a_start_resumed_at_any_point_is_the_uninterrupted_one(explore: Any, synchronous: bool) -> None:
    settings: dict[str, Any] = {"size": 3, "rounds": 3, "mode": "min", "explore": explore, "synchronous": synchronous}

    def fastest(training: list[Assignment]) -> int:
        """The same one after a resume."""
        return min(
            range(len(training)), key=lambda i: ((5 * training[i].member + 3 * training[i].round) % 7, training[i].key)
        )

    def run(history: Any = ()) -> History:
        population = Population(MIXED, PBT(), start=[{"optimizer": "adam"}], history=history, **settings)
        return play(population, fastest).history

    whole = run()
    assert whole.find((0, 0)).config["optimizer"] == "adam"
    for cut in range(len(whole) + 1):
        assert list(run(whole.prefix(cut))) == list(whole), f"resumed after {cut}"


# Refusals

FORMS = "start must be a configuration or a list of them, 'defaults', 'random', a History, or the folder of a run, got "
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "an unknown name": (
        [GIVEN[0], {"lr": 0.1}],
        SpaceError,
        "start[1]: 'lr': a value needs a parameter, got 0.1; there are h, x",
    ),
    "an illegal number": ([{"x": 2.0}], SpaceError, "start[0]: 'x': the value must be in [0.0, 1.0], got 2.0; clip it"),
    "an illegal label": (
        [{"h": "z"}],
        SpaceError,
        "start[0]: 'h': the value must be one of ('a', 'b', 'c'), got 'z'",
    ),
    "no configuration": ([3], SpaceError, "start[0]: a configuration is a dict, got 3; name its values"),
    "too many": (
        [*GIVEN, {}],
        ArgumentError,
        "start has at most one configuration for each member, got 3 for 2",
    ),
    "a number": (4, ArgumentError, f"{FORMS}4"),
    "a folder without a run": ("default", ArgumentError, f"{FORMS}'default', which holds no run"),
    "a run without a result": (
        History(SPACE),
        ArgumentError,
        "start needs a run with a completed interval, got 'history' with none; give another",
    ),
    "a label that is gone": (
        past(0.5, space={"x": (0.0, 1.0), "h": ["b", "z"]}, h="z"),
        SpaceError,
        "start from 'history', member 0 in round 0: 'h': the value must be one of ('a', 'b', 'c'), got 'z'",
    ),
    "a label that is a number now": (
        past(0.5, space={"x": ["low"], "h": ["b"]}, x="low"),
        SpaceError,
        "start from 'history', member 0 in round 0: 'x': the value must be a number, got 'low'; convert it",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_start_that_does_not_fit_is_refused(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    start, kind, message = REFUSED[case]
    with pytest.raises(kind) as caught:
        first(read_start(start), size=2)
    assert str(caught.value) == message


def test_a_misspelt_parameter_is_answered_with_the_name_that_was_meant() -> None:
    with pytest.raises(SpaceError, match=r"'lrr': a value needs .*; there are lr, momentum; did you mean 'lr'\?$"):
        Population({"lr": (0.0, 1.0), "momentum": (0.0, 1.0)}, PBT(), start={"lrr": 0.5})


def test_an_inactive_parameter_is_refused_with_its_condition() -> None:
    with pytest.raises(SpaceError, match=r"^start\[0\]: 'beta': a value is given only if optimizer == 'adam', got "):
        first([{"optimizer": "sgd", "beta": 0.9}], MIXED)


def test_a_forbidden_pair_is_refused_also_if_a_default_makes_it() -> None:
    made = cs.ConfigurationSpace({"a": ["x", "y"], "b": ["x", "y"]})
    pair = cs.ForbiddenEqualsClause(made["a"], "x"), cs.ForbiddenEqualsClause(made["b"], "y")
    made.add(cs.ForbiddenAndConjunction(*pair))
    message = r"^start\[0\]: \(a == 'x' && b == 'y'\) is forbidden, got \{'b': 'y', 'a': 'x'\}; change one"
    with pytest.raises(SpaceError, match=message):
        first([{"b": "y"}], made)
