"""What is wrong is refused at once, with the rule, the value that broke it, and what to do: one row for each case."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ConfigSpace as cs
import numpy as np
import pytest

from popbandits import (
    PBT,
    ArgumentError,
    Assignment,
    CoCaBO,
    History,
    HistoryError,
    Observation,
    PB2Fuse,
    PB2Mix,
    PB2Rand,
    PopbanditsError,
    Population,
    Space,
    SpaceError,
)
from popbandits.explorers import Explorer, Proposal
from popbandits.methods import METHODS
from popbandits.models.bandit import TVEXP3M

SPACE = {"x": (0.0, 1.0), "h": ["a", "b"]}
GOOD = {"x": 0.5, "h": "a"}


def population(**arguments: Any) -> Population:
    return Population(**{"space": SPACE, "method": PBT(), "size": 2} | arguments)


def told(score: Any = 1.0, **more: Any) -> None:
    run = population()
    run.tell(run.ask()[0], score, **more)


def told_twice() -> None:
    run = population()
    first, _ = run.ask()
    run.tell(first, 1.0)
    run.tell(first, 1.0)


def observed(**fields: Any) -> Observation:
    return Observation(**{"member": 0, "round": 0, "config": GOOD, "score": 1.0} | fields)


def conditional() -> cs.ConfigurationSpace:
    made = cs.ConfigurationSpace({"kind": ["sgd", "adam"], "beta": (0.0, 1.0), "lr": (0.0, 1.0)})
    made.add(cs.EqualsCondition(made["beta"], made["kind"], "adam"))
    made.add(
        cs.ForbiddenAndConjunction(
            cs.ForbiddenEqualsClause(made["kind"], "adam"), cs.ForbiddenGreaterThanClause(made["lr"], 0.9)
        )
    )
    return made


class Stuck(Explorer):
    def explore_round(self, *arguments: Any) -> Any:
        return [Proposal({"x": 7.0, "h": "a"})]


class Nothing(Explorer):
    pass


def explored(method: Explorer) -> None:
    run = population(method=method, size=1, explore="all")
    run.tell(run.ask()[0], 1.0)
    run.ask()


Case = tuple[Callable[[], Any], type[Exception], str]
SPACES: dict[str, Case] = {
    "a space that is no dict": (
        lambda: Space(3),  # type: ignore[arg-type]
        SpaceError,
        "a space is a dict or a ConfigurationSpace, got 3; write for example {'lr': (0.1, 1.0)}",
    ),
    "an empty space": (
        lambda: population(space={}),
        SpaceError,
        "a space needs at least one parameter, got none; write for example {'lr': (0.1, 1.0)}",
    ),
    "reversed bounds": (
        lambda: population(space={"lr": (1.0, 0.1)}),
        SpaceError,
        "'lr': the lower bound comes first, got (1.0, 0.1); swap the two",
    ),
    "equal bounds": (
        lambda: population(space={"lr": (1.0, 1.0)}),
        SpaceError,
        "'lr': the bounds must differ, got (1.0, 1.0); write the bare value for a constant",
    ),
    "infinite bounds": (
        lambda: population(space={"lr": (0.0, math.inf)}),
        SpaceError,
        "'lr': bounds must be finite, got (0.0, inf); give the largest range you would try",
    ),
    "a range of three": (
        lambda: population(space={"lr": (0.0, 0.5, 1.0)}),
        SpaceError,
        "'lr': a tuple is a range (lower, upper) of two numbers, got (0.0, 0.5, 1.0); "
        "write a list for choices, or log(lower, upper) for a log range",
    ),
    "a label twice": (
        lambda: population(space={"aug": ["crop", "flip", "crop"]}),
        SpaceError,
        "'aug': labels must differ, got 'crop' and 'crop', which are equal; drop one",
    ),
    "no labels": (
        lambda: population(space={"aug": []}),
        SpaceError,
        "'aug': a list of choices needs a label, got []; add one or drop the parameter",
    ),
    "a label that cannot be hashed": (
        lambda: population(space={"aug": [["crop"], "flip"]}),
        SpaceError,
        "'aug': a value must be hashable, got ['crop']; use a tuple or a name in its place",
    ),
    "a set of choices": (
        lambda: population(space={"aug": {"crop"}}),
        SpaceError,
        "'aug': choices are a list, a range is a tuple and a constant is one value, got {'crop'}; "
        "write a list, or Constant('aug', ...) if it is one value",
    ),
    "a name that is no string": (
        lambda: population(space={1: (0.0, 1.0)}),
        SpaceError,
        "'space': a name is a string that is not empty, got 1; rename it",
    ),
}
CONFIGS: dict[str, Case] = {
    "a configuration that is no dict": (
        lambda: Space(SPACE).encode([0.5]),  # type: ignore[list-item]
        SpaceError,
        "a configuration is a dict, got 0.5; name its values",
    ),
    "a parameter that does not exist": (
        lambda: Space(SPACE).check(GOOD | {"lr": 1}),
        SpaceError,
        "'lr': a value needs a parameter, got 1; there are h, x",
    ),
    "a parameter that is missing": (
        lambda: Space(SPACE).check({"h": "a"}),
        SpaceError,
        "'x': an active parameter needs a value, got {'h': 'a'}; add it",
    ),
    "a value beyond its bounds": (
        lambda: Space(SPACE).check(GOOD | {"x": 1.5}),
        SpaceError,
        "'x': the value must be in [0.0, 1.0], got 1.5; clip it",
    ),
    "a value of another type": (
        lambda: Space(SPACE).check(GOOD | {"x": "0.5"}),
        SpaceError,
        "'x': the value must be a number, got '0.5'; convert it",
    ),
    "a label that is none": (
        lambda: Space(SPACE).check(GOOD | {"h": "z"}),
        SpaceError,
        "'h': the value must be one of ('a', 'b'), got 'z'",
    ),
    "a value for an inactive parameter": (
        lambda: Space(conditional()).check({"kind": "sgd", "lr": 0.5, "beta": 0.5}),
        SpaceError,
        "'beta': a value is given only if kind == 'adam', got {'kind': 'sgd', 'lr': 0.5, 'beta': 0.5}; drop it",
    ),
    "a forbidden combination": (
        lambda: Space(conditional()).check({"kind": "adam", "lr": 0.95, "beta": 0.5}),
        SpaceError,
        "(kind == 'adam' && lr > 0.9) is forbidden, got {'kind': 'adam', 'lr': 0.95, 'beta': 0.5}; "
        "change one of these values",
    ),
}
POPULATIONS: dict[str, Case] = {
    "a class for a method": (
        lambda: population(method=PB2Mix),
        ArgumentError,
        "method must be an explorer, an object with a method explore, got "
        "<class 'popbandits.explorers.pb2_mix.PB2Mix'>; make one, such as PBT()",
    ),
    "a name for a method": (
        lambda: population(method="PB2Mix"),
        ArgumentError,
        f"method must be an explorer or one of {', '.join(METHODS)}, got 'PB2Mix'; did you mean 'pb2-mix'?",
    ),
    "a size of nothing": (
        lambda: population(size=0),
        ArgumentError,
        "size must be a whole number from 1 to 1,000,000, got 0",
    ),
    "a fraction of a member": (
        lambda: population(size=2.5),
        ArgumentError,
        "size must be a whole number from 1 to 1,000,000, got 2.5",
    ),
    "a boolean for a size": (
        lambda: population(size=True),
        ArgumentError,
        "size must be a whole number from 1 to 1,000,000, got True",
    ),
    "no rounds": (
        lambda: population(rounds=0),
        ArgumentError,
        "rounds must be a whole number from 1 to 1,000,000,000, or None for no set end, got 0",
    ),
    "a negative seed": (
        lambda: population(seed=-1),
        ArgumentError,
        "seed must be a whole number of at least 0, got -1",
    ),
    "no seed": (
        lambda: population(seed=None),
        ArgumentError,
        "seed must be a whole number of at least 0, got None",
    ),
    "an empty quantile": (
        lambda: population(quantile=0.0),
        ArgumentError,
        "quantile must be above 0 and at most 0.5, got 0.0; 0.25 is usual",
    ),
    "a quantile above a half": (
        lambda: population(quantile=0.6),
        ArgumentError,
        "quantile must be above 0 and at most 0.5, got 0.6; 0.25 is usual",
    ),
    "text for a quantile": (
        lambda: population(quantile="25%"),
        ArgumentError,
        "quantile must be above 0 and at most 0.5, got '25%'; 0.25 is usual",
    ),
    "a mode that is none": (
        lambda: population(mode="maximise"),
        ArgumentError,
        "mode must be 'max' or 'min', got 'maximise'",
    ),
    "an explore that is none": (
        lambda: population(explore="some"),
        ArgumentError,
        "explore must be 'replaced' or 'all', got 'some'",
    ),
    "text for synchronous": (
        lambda: population(synchronous="no"),
        ArgumentError,
        "synchronous must be True or False, got 'no'",
    ),
    "an infinite initial score": (
        lambda: population(initial_score=math.inf),
        ArgumentError,
        "initial_score must be finite, or None if unknown, got inf",
    ),
    "text for an initial score": (
        lambda: population(initial_score="zero"),
        ArgumentError,
        "initial_score must be finite, or None if unknown, got 'zero'",
    ),
    "a folder for a history": (
        lambda: population(history="runs/x"),
        HistoryError,
        "a history holds Observations, got 'r'; give History.load(directory) of a run",
    ),
    "a history of the other direction": (
        lambda: population(history=History(SPACE, mode="min")),
        HistoryError,
        "mode must be the history's, 'min', got 'max'; make the two equal",
    ),
    "a history of more members": (
        lambda: population(history=[observed(member=m) for m in range(3)]),
        HistoryError,
        "members are 0 to 1, got an observation of member 2; raise the size",
    ),
    "a history of fewer members": (
        lambda: population(history=[observed(), observed(round=1)]),
        HistoryError,
        "in a synchronous run of 2 members observation 1 is of round 0, got a history with one of round 1; "
        "give its size, or synchronous=False",
    ),
    "a history of more rounds": (
        lambda: population(rounds=1, size=1, history=[observed(), observed(round=1)]),
        HistoryError,
        "the run has rounds 0 to 0, got a history with round 1 of member 0; raise rounds",
    ),
    "a history of another space": (
        lambda: population(history=[observed(config={"lr": 0.1})]),
        SpaceError,
        "'lr': a value needs a parameter, got 0.1; there are h, x",
    ),
}
TOLD: dict[str, Case] = {
    "a score without an assignment": (
        lambda: population().tell(0, 1.0),  # type: ignore[arg-type]
        HistoryError,
        "tell takes an assignment, got 0; give what ask returned",
    ),
    "an assignment told twice": (
        told_twice,
        HistoryError,
        "an assignment is told once, got round 0 of member 0 again; ask for the next",
    ),
    "an assignment that nobody made": (
        lambda: population().tell(Assignment(5, 3, GOOD), 1.0),
        HistoryError,
        "only an assignment that ask returned can be told, got round 3 of member 5; call ask first",
    ),
    "text for a score": (
        lambda: told("0.5"),
        ArgumentError,
        "a score is a number, got '0.5'; tell NaN or None if the interval failed",
    ),
    "a list for a score": (
        lambda: told([0.5]),
        ArgumentError,
        "a score is a number, got [0.5]; tell NaN or None if the interval failed",
    ),
    "no steps": (
        lambda: told(steps=0),
        HistoryError,
        "steps must be a positive number, or None if unknown, got 0; leave it out",
    ),
    "text for steps": (
        lambda: told(steps="many"),
        HistoryError,
        "steps must be a positive number, or None if unknown, got 'many'; leave it out",
    ),
    "a negative standard error": (
        lambda: told(standard_error=-0.5),
        HistoryError,
        "standard_error must be at least 0, or None if unknown, got -0.5; leave it out",
    ),
    "text for a standard error": (
        lambda: told(standard_error="small"),
        HistoryError,
        "standard_error must be at least 0, or None if unknown, got 'small'; leave it out",
    ),
    "negative seconds": (
        lambda: told(seconds=-1.0),
        HistoryError,
        "seconds must be at least 0, or None if unknown, got -1.0; leave it out",
    ),
    "metrics without names": (
        lambda: told(metrics=[1.0]),
        HistoryError,
        "metrics must be a dict, got [1.0]; name its values",
    ),
    "metrics that cannot be stored": (
        lambda: told(metrics={"model": {"weights": {1, 2}}}),
        HistoryError,
        "metrics['model']['weights']: a record holds numbers, strings, booleans, None, and lists and dicts of them, "
        "got {1, 2}; convert it",
    ),
}
EXPLORERS: dict[str, Case] = {
    "an empty window": (
        lambda: PB2Mix(window=0),
        ArgumentError,
        "window must be a whole number of at least 1, or None for all, got 0",
    ),
    "a fraction of a window": (
        lambda: CoCaBO(window=0.5),  # type: ignore[arg-type]
        ArgumentError,
        "window must be a whole number of at least 1, or None for all, got 0.5",
    ),
    "a negative c1": (
        lambda: PB2Mix(c1=-1.0),
        ArgumentError,
        "c1 must be finite and at least 0, got -1.0",
    ),
    "a c2 that is NaN": (
        lambda: PB2Mix(c2=math.nan),
        ArgumentError,
        "c2 must be finite and above 0, got nan",
    ),
    "no temperature": (
        lambda: PB2Fuse(temperature=0.0),
        ArgumentError,
        "temperature must be above 0, got 0.0; the default is 0.25",
    ),
    "two factors below one": (
        lambda: PBT(factors=(0.5, 0.8)),
        ArgumentError,
        "factors must be one below and one above 1, got (0.5, 0.8); (0.8, 1.2) is usual",
    ),
    "one factor": (
        lambda: PBT(factors=1.2),  # type: ignore[arg-type]
        ArgumentError,
        "factors must be one below and one above 1, got 1.2; (0.8, 1.2) is usual",
    ),
    "a probability above one": (
        lambda: PBT(resample=25),
        ArgumentError,
        "resample must be a probability between 0 and 1, got 25",
    ),
    "a negative probability": (
        lambda: PB2Rand(resample_label=-0.1),
        ArgumentError,
        "resample_label must be a probability between 0 and 1, got -0.1",
    ),
    "an explorer without a method": (
        lambda: explored(Nothing()),
        NotImplementedError,
        "Nothing must define explore or explore_round",
    ),
    "an explorer that proposes what is illegal": (
        lambda: explored(Stuck()),
        SpaceError,
        "Stuck proposed an illegal configuration: 'x': the value must be in [0.0, 1.0], got 7.0; clip it",
    ),
    "a bandit without arms": (
        lambda: TVEXP3M(arms=0),
        ArgumentError,
        "'arms': must be at least 1, got 0",
    ),
}
HISTORIES: dict[str, Case] = {
    "a negative member": (
        lambda: observed(member=-1),
        HistoryError,
        "member and round count from 0, got member -1, round 0; use whole numbers",
    ),
    "a fraction of a round": (
        lambda: observed(round=0.5),
        HistoryError,
        "member and round count from 0, got member 0, round 0.5; use whole numbers",
    ),
    "a list for a configuration": (
        lambda: observed(config=[0.5]),
        HistoryError,
        "config must be a dict, got [0.5]; name its values",
    ),
    "a parent without a round": (
        lambda: observed(parent=(0,)),
        HistoryError,
        "parent must be (member, round) or None, got (0,); count both from 0",
    ),
    "a status that is none": (
        lambda: observed(status="done"),
        HistoryError,
        "status must be 'completed', 'failed' or 'lost', got 'done'",
    ),
    "a completed interval without a score": (
        lambda: observed(score=math.nan),
        HistoryError,
        "a completed observation needs a finite score, got nan; mark it as failed",
    ),
    "text for an observed score": (
        lambda: observed(score="1.0"),
        HistoryError,
        "a completed observation needs a finite score, got '1.0'; mark it as failed",
    ),
    "a failure with a score": (
        lambda: observed(status="failed"),
        HistoryError,
        "a failed observation has no score, got 1.0; leave it out",
    ),
    "an infinite score before": (
        lambda: observed(score_before=-math.inf),
        HistoryError,
        "score_before must be finite, or NaN if unknown, got -inf; leave it out",
    ),
    "a decision that cannot be stored": (
        lambda: observed(decision={"model": np}),
        HistoryError,
        f"decision['model']: a record holds numbers, strings, booleans, None, and lists and dicts of them, "
        f"got {np!r}; convert it",
    ),
    "a history in no direction": (
        lambda: History(SPACE, mode="best"),  # type: ignore[arg-type]
        ArgumentError,
        "mode must be 'max' or 'min', got 'best'",
    ),
    "a history of no members": (
        lambda: History(SPACE, size=0),
        ArgumentError,
        "size must be a whole number of at least 1, or None if unknown, got 0",
    ),
    "a history of something else": (
        lambda: History(SPACE, [GOOD]),  # type: ignore[list-item]
        HistoryError,
        f"a history holds Observations, got {GOOD!r}; give History.load(directory) of a run",
    ),
    "a round that was left out": (
        lambda: History(SPACE, [observed(), observed(round=2)]),
        HistoryError,
        "member 0 is at round 1, got an observation of its round 2; append rounds in order",
    ),
    "a parent that is not there": (
        lambda: History(SPACE, [observed(parent=(1, 4))]),
        HistoryError,
        "a parent comes first, got (0, 0) with (1, 4) unseen; append it",
    ),
    "an addition to an earlier state": (
        lambda: History(SPACE).prefix(0).append(observed()),
        HistoryError,
        "an earlier state of a history is read-only; append to the history itself",
    ),
    "a folder without a run": (
        lambda: History.load("nowhere"),
        HistoryError,
        "nowhere holds no run: there is no such folder; give the folder of a run",
    ),
}
CASES = SPACES | CONFIGS | POPULATIONS | TOLD | EXPLORERS | HISTORIES


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_with_this_error_and_this_message(case: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    do, kind, message = CASES[case]
    with pytest.raises(kind) as caught:
        do()
    assert caught.type is kind
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


def test_there_are_at_least_thirty_cases_and_none_was_overwritten() -> None:
    parts = (SPACES, CONFIGS, POPULATIONS, TOLD, EXPLORERS, HISTORIES)
    assert len(CASES) == sum(map(len, parts)) >= 30


def test_every_message_says_what_it_got_and_a_fix_says_more_than_to_change_it() -> None:
    for case, (_, kind, message) in CASES.items():
        if kind is not NotImplementedError:
            assert issubclass(kind, PopbanditsError), case
            assert issubclass(kind, ValueError), case
            assert "got " in message or "; " in message, case
            assert message.rpartition("; ")[2] not in ("change it", "choose one", "raise it", "pick one"), case
