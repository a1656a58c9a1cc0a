"""The public contract suite: every explorer keeps it on every kind of space, and it finds who does not."""

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

from popbandits.explorers import (
    Explorer,
    PB2Fuse,
    PB2Mix,
    PB2Rand,
    Proposal,
)
from popbandits.methods import METHODS
from popbandits.space import Space
from popbandits_experiments.contracts import EXPLORER_CHECKS, check_explorer, spaces

SPACES = spaces()
EXPLORERS = tuple(dict.fromkeys(type(method.make()) for method in METHODS.values()))


def some_of_all() -> list[Any]:
    """Every explorer, space and rule; a ninth of them in turn, and the others slow.

    Each explorer meets every rule, on one or two spaces, and every space, with one of the rules.
    """
    every = product(enumerate(EXPLORERS), enumerate(SPACES), enumerate(EXPLORER_CHECKS))
    return [
        pytest.param(explorer, space, check, marks=() if (i + j + k) % 9 == 0 else pytest.mark.slow)
        for (i, explorer), (j, space), (k, check) in every
    ]


@pytest.mark.parametrize(("explorer", "space", "check"), some_of_all())
def test_every_explorer_keeps_every_rule_on_every_space(explorer: type[Explorer], space: str, check: str) -> None:
    EXPLORER_CHECKS[check](explorer(), SPACES[space])


@pytest.mark.parametrize(
    "explorer",
    [PB2Mix(window=3), PB2Mix(per_dimension=True), PB2Fuse(score_before=True), PB2Rand(window=None)],
    ids=repr,
)
def test_the_rules_hold_whatever_the_arguments(explorer: Explorer) -> None:
    check_explorer(explorer, SPACES["conditional numbers"])


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_an_explorer_is_its_settings(explorer: type[Explorer]) -> None:
    """So that a run's record can hold it, and make it again."""
    assert explorer() == explorer()
    assert eval(repr(explorer()), {explorer.__name__: explorer}) == explorer()


def test_the_spaces_are_of_every_kind() -> None:
    kinds = {number.kind for space in SPACES.values() for number in space.numerical}
    labels = {type(label) for space in SPACES.values() for c in space.categorical for label in c.labels}
    made = [space.configuration_space for space in SPACES.values()]
    assert kinds == {"float", "integer", "ordinal"}
    assert labels >= {str, int, float, bool, type(None), tuple}
    assert any(number.log for space in SPACES.values() for number in space.numerical)
    assert any(number.prior for space in SPACES.values() for number in space.numerical)
    labelled = [{c.name for c in space.categorical} for space in SPACES.values()]
    assert any(names & set(each.conditional_hyperparameters) for names, each in zip(labelled, made, strict=True))
    assert any(not space.numerical for space in SPACES.values())
    assert any(not space.categorical for space in SPACES.values())
    assert any(each.forbidden_clauses for each in made)
    assert any(p in each.conditional_hyperparameters for each in made for c in each.conditions for p in [c.parent.name])


class Drawn(Explorer):
    """A correct explorer, for the others below to spoil."""

    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        return space.decode(space.sample(1, rng))[0]


class Remembers(Drawn):
    calls = 0

    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        self.calls += 1
        return space.decode(space.sample(self.calls, rng))[-1]


class RemembersTheRun(Drawn):
    """Asked twice in a row it says the same, asked about another history in between it does not."""

    def __init__(self) -> None:
        self.longest = 0

    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        draw = space.decode(space.sample(3, rng))
        best = draw[0] if len(history) and history[0].config != draw[1] else draw[2]
        self.longest = max(self.longest, sum(o.failed for o in history))
        return draw[1] if self.longest else best


class IgnoresConditions(Drawn):
    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        return {name: hp.default_value for name, hp in space.configuration_space.items()}


class IgnoresForbiddenClauses(Drawn):
    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        width = len(space.numerical) + len(space.categorical)
        return space.decode(space.from_quantiles(rng.random((1, width))))[0]


class HandsOutNumpy(Drawn):
    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        return {"lr": np.float64(rng.random())}


class ChangesTheHistory(Drawn):
    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        if len(history):
            history[0].config["lr"] = 0.123
        return super().explore(space, history, pending, parent, rng)


class ChangesItsParent(Drawn):
    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        if parent is not None:
            parent.metrics["children"] = 1
        return super().explore(space, history, pending, parent, rng)


class ChangesPending(Drawn):
    def explore_round(self, space: Space, history: Any, pending: Any, parents: Any, rng: np.random.Generator) -> Any:
        proposals = [Proposal(config) for config in space.decode(space.sample(len(parents), rng))]
        pending += [proposal.config for proposal in proposals]
        return proposals


class DrawsFromTheGlobalGenerator(Drawn):
    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        seed = np.random.randint(2**30)  # noqa: NPY002
        return super().explore(space, history, pending, parent, np.random.default_rng(seed))


class SeedsTheGlobalGenerator(Drawn):
    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        np.random.seed(3)  # noqa: NPY002
        return {"lr": float(np.random.rand())}  # noqa: NPY002


class NeedsData(Drawn):
    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        return dict(max(history, key=lambda o: o.score).config)


class NeedsAParent(Drawn):
    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        return dict(parent.config)


class ForgetsAMember(Drawn):
    def explore_round(self, *arguments: Any) -> Any:
        return super().explore_round(*arguments)[:1]


class DisagreesWithItself(Drawn):
    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        return space.decode(space.sample(2, rng))[1]

    def explore_round(self, space: Space, history: Any, pending: Any, parents: Any, rng: np.random.Generator) -> Any:
        return [Proposal(config) for config in space.decode(space.sample(len(parents), rng))]


class RecordsArrays(Drawn):
    def explore_round(self, *arguments: Any) -> Any:
        return [Proposal(each.config, {"mean": np.zeros(2)}) for each in super().explore_round(*arguments)]


class RecordsTuples(Drawn):
    def explore_round(self, *arguments: Any) -> Any:
        return [Proposal(each.config, {"mean": (0.0, 1.0)}) for each in super().explore_round(*arguments)]


class AlwaysMaximises(Drawn):
    def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        best = max((o for o in history if not o.failed), key=lambda o: o.score, default=None)
        return super().explore(space, history, pending, parent, rng) if best is None else dict(best.config)


class CannotBePickled(Drawn):
    def __init__(self) -> None:
        self.key = lambda config: config


FLOAT, CONDITIONS, FORBIDDEN = "one float", "conditional numbers", "forbidden clauses"
BAD: list[tuple[type[Explorer], str, str, str]] = [
    (Remembers, FLOAT, "decides by its arguments alone", "must answer the same when asked the same"),
    (RemembersTheRun, FLOAT, "has no memory", "must not remember what it was asked"),
    (IgnoresConditions, CONDITIONS, "proposes legal configurations", "a value is given only if optimizer =="),
    (IgnoresForbiddenClauses, FORBIDDEN, "proposes legal configurations", "is forbidden"),
    (HandsOutNumpy, FLOAT, "proposes legal configurations", "native types.* got {'lr': np.float64"),
    (ChangesTheHistory, FLOAT, "leaves its arguments alone", "must not change its arguments: history was"),
    (ChangesItsParent, FLOAT, "leaves its arguments alone", "must not change its arguments: history was"),
    (ChangesPending, FLOAT, "leaves its arguments alone", "must not change its arguments: pending was"),
    (DrawsFromTheGlobalGenerator, FLOAT, "decides by its arguments alone", "must draw from the generator it is given"),
    (SeedsTheGlobalGenerator, FLOAT, "decides by its arguments alone", "it used a global one"),
    (NeedsData, FLOAT, "proposes legal configurations", "must cope with an empty history, got ValueError"),
    (NeedsAParent, FLOAT, "proposes legal configurations", "must cope with .*, got AttributeError"),
    (ForgetsAMember, FLOAT, "proposes for each member", "a Proposal for each of 4 members, got"),
    (DisagreesWithItself, FLOAT, "proposes for each member", "explore and explore_round must agree"),
    (RecordsArrays, FLOAT, "records plain decisions", "must record plain values, got {'mean': array"),
    (RecordsTuples, FLOAT, "records plain decisions", "must record what JSON gives back, got {'mean': \\("),
    (AlwaysMaximises, FLOAT, "turns with the direction", "must minimise as it maximises"),
    (CannotBePickled, FLOAT, "has no memory", "must survive pickle"),
]


@pytest.mark.parametrize(("explorer", "space", "rule", "message"), BAD, ids=[bad[0].__name__ for bad in BAD])
def test_a_bad_explorer_is_caught_by_the_rule_it_breaks(
    explorer: type[Explorer], space: str, rule: str, message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        EXPLORER_CHECKS[rule](explorer(), SPACES[space])


@pytest.mark.parametrize(("explorer", "space"), [bad[:2] for bad in BAD], ids=[bad[0].__name__ for bad in BAD])
def test_the_whole_suite_catches_a_bad_explorer_and_names_a_rule(explorer: type[Explorer], space: str) -> None:
    rules = "|".join(map(re.escape, EXPLORER_CHECKS))
    with pytest.raises(AssertionError, match=rf"^({rules}), on the space 'given': .*{explorer.__name__}"):
        check_explorer(explorer(), SPACES[space])


def test_a_run_that_an_explorer_stops_is_caught() -> None:
    class StopsAfterTwoRounds(Drawn):
        def explore_round(self, space: Any, history: Any, *arguments: Any) -> Any:
            assert len(history) < 6 or history[0].decision != {}, "enough"
            return super().explore_round(space, history, *arguments)

    with pytest.raises(AssertionError, match="StopsAfterTwoRounds must carry a run to its end, got Assertion"):
        EXPLORER_CHECKS["carries a whole run"](StopsAfterTwoRounds(), SPACES[FLOAT])


def test_a_run_that_is_not_resumed_as_it_was_is_caught() -> None:
    class Counts(Drawn):
        calls = 0

        def explore(self, space: Any, history: Any, pending: Any, parent: Any, rng: Any) -> Any:
            type(self).calls += 1
            return {"lr": 1 / self.calls}

    with pytest.raises(AssertionError, match="Counts must resume as if it had not stopped, got Observation"):
        EXPLORER_CHECKS["resumes where it stopped"](Counts(), SPACES[FLOAT])


def test_without_a_space_an_explorer_is_checked_on_all_of_them() -> None:
    seen = set()

    class Watches(Drawn):
        def explore(self, space: Space, history: Any, pending: Any, parent: Any, rng: Any) -> Any:
            seen.add(space.names)
            return super().explore(space, history, pending, parent, rng)

        def __reduce__(self) -> Any:
            return Drawn, ()

        def __deepcopy__(self, memo: Any) -> Any:
            return self

    check_explorer(Watches())
    assert seen == {space.names for space in SPACES.values()}
