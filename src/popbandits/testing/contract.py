"""The rules that an explorer keeps on every space, one check each. A broken rule is an AssertionError that names it."""

import copy
import json
import pickle
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from popbandits.errors import SpaceError
from popbandits.explorers import Explorer, Proposal
from popbandits.history import Config, History, Mode
from popbandits.population import Population
from popbandits.space import Space
from popbandits.testing.situations import Question, questions, toy_score
from popbandits.testing.spaces import spaces

Check = Callable[[Explorer, Any], None]


def check_explorer(explorer: Explorer, space: Any = None) -> None:
    """Raise AssertionError, with the rule and the situation, unless the explorer keeps every rule.

    `space` is anything a `Population` takes; without it, all of `spaces()` are tried in turn.
    """
    for name, given in (spaces() if space is None else {"given": space}).items():
        for rule, check in EXPLORER_CHECKS.items():
            try:
                check(explorer, given)
            except AssertionError as error:
                raise AssertionError(f"{rule}, on the space {name!r}: {error}") from error


def proposes_legal_configurations(explorer: Explorer, space: Any) -> None:
    """Inside the bounds, of the declared types, exactly the active parameters, nothing forbidden: in any situation."""
    for question in questions(space).values():
        for config in _configs(_ask(explorer, question)):
            _check_config(explorer, question.space, config, question.name)


def proposes_for_each_member(explorer: Explorer, space: Any) -> None:
    """As many proposals as members explore; `explore` gives one member what `explore_round` would."""
    question = questions(space)["a few rounds"]
    parent = question.parents[0]
    for parents in ([parent], [parent, None, parent, parent]):
        got = _ask(explorer, _with(question, parents))
        _require(
            len(got) == len(parents) and all(isinstance(each, Proposal) for each in got),
            f"{_name(explorer)}.explore_round must return a Proposal for each of {len(parents)} members, got {got!r}",
        )
    rng = np.random.default_rng(0)
    one = explorer.explore(question.space, question.history, question.pending, parent, rng)
    same = _configs(_ask(explorer, _with(question, [parent])))
    _require(
        _equal([one], same),
        f"{_name(explorer)}.explore and explore_round must agree on one member, got {one!r} and {same!r}",
    )


def decides_by_its_arguments_alone(explorer: Explorer, space: Any) -> None:
    """Equal arguments and generators give equal answers; there is no randomness but the generator's."""
    question = questions(space)["a few rounds"]
    # The legacy state is looked at, not drawn from.
    state = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    first, second = _ask(explorer, question), _ask(explorer, question)
    _require(
        _equal(_configs(first), _configs(second)) and _equal(_decisions(first), _decisions(second)),
        f"{_name(explorer)} must answer the same when asked the same with equal generators, "
        f"got {_configs(first)} and {_configs(second)}",
    )
    _require(
        state == (random.getstate(), repr(np.random.get_state())),  # noqa: NPY002
        f"{_name(explorer)} must draw from the generator it is given, it used a global one",
    )


def leaves_its_arguments_alone(explorer: Explorer, space: Any) -> None:
    """The space, the history, what is pending and the parents are the same afterwards."""
    for name in ("a few rounds", "one observation"):
        question = questions(space)[name]
        before = _seen(question)
        _ask(explorer, question)
        for part, value in _seen(question).items():
            _require(
                _equal(value, before[part]),
                f"{_name(explorer)} must not change its arguments, the {part} was {before[part]!r} and is {value!r}",
            )


def has_no_memory(explorer: Explorer, space: Any) -> None:
    """A copy that was never asked anything answers as the one that was; so does one that went through pickle."""
    try:
        unused = pickle.loads(pickle.dumps(explorer))
    except Exception as error:
        raise AssertionError(f"{_name(explorer)} must survive pickle, got {error!r}") from error
    asked = questions(space)
    for name in ("an empty history", "some failures"):
        _ask(explorer, asked[name], seed=1)
    used, fresh = (_configs(_ask(each, asked["a few rounds"])) for each in (explorer, unused))
    _require(
        _equal(used, fresh),
        f"{_name(explorer)} must not remember what it was asked, got {used} where a new copy says {fresh}",
    )


def records_plain_decisions(explorer: Explorer, space: Any) -> None:
    """A decision is what JSON gives back: text, numbers, booleans, None, lists, and dicts with text for keys."""
    for name in ("a few rounds", "failures only"):
        for decision in _decisions(_ask(explorer, questions(space)[name])):
            try:
                again = json.loads(json.dumps(decision, allow_nan=False))
            except (TypeError, ValueError) as error:
                raise AssertionError(f"{_name(explorer)} must record plain values, got {decision!r}: {error}") from error
            _require(
                _equal(again, decision),
                f"{_name(explorer)} must record what JSON gives back, got {decision!r} which comes back as {again!r}",
            )


def turns_with_the_direction(explorer: Explorer, space: Any) -> None:
    """With mode="min" and every score negated, the decision is the same."""
    up, down = (_configs(_ask(explorer, questions(space, mode)["a few rounds"])) for mode in ("max", "min"))  # type: ignore[arg-type]
    _require(
        _equal(up, down),
        f"{_name(explorer)} must minimise as it maximises (history.sign and Rows turn scores), got {up} and {down}",
    )


def carries_a_whole_run(explorer: Explorer, space: Any) -> None:
    """A population reaches its end, with failures on the way: in rounds, and in any order."""
    for synchronous, mode in ((True, "max"), (False, "min")):
        population = _population(explorer, space, synchronous, mode)
        _train(explorer, population)
        for observation in population.history:
            _check_config(explorer, population.space, observation.config, f"a run in mode {mode!r}")


def resumes_where_it_stopped(explorer: Explorer, space: Any) -> None:
    """A run that was stored, stopped and taken up again makes the same history as one that was not."""
    for synchronous, mode in ((True, "min"), (False, "max")):
        whole = _population(explorer, space, synchronous, mode)
        _train(explorer, whole)
        for cut in (4, 8):
            with TemporaryDirectory() as folder:
                whole.history.until(cut).save(Path(folder) / "run")
                stored = History.load(Path(folder) / "run")
            again = _population(explorer, space, synchronous, mode, stored)
            _train(explorer, again)
            for one, other in zip(whole.history, again.history, strict=True):
                _require(
                    one == other,
                    f"{_name(explorer)} must go on after {cut} observations as if it had not stopped "
                    f"({'synchronous' if synchronous else 'asynchronous'}), got {other} for {one}",
                )


EXPLORER_CHECKS: dict[str, Check] = {
    check.__name__.replace("_", " "): check
    for check in (
        proposes_legal_configurations,
        proposes_for_each_member,
        decides_by_its_arguments_alone,
        leaves_its_arguments_alone,
        has_no_memory,
        records_plain_decisions,
        turns_with_the_direction,
        carries_a_whole_run,
        resumes_where_it_stopped,
    )
}
"""Every rule, by its name."""


# What the checks are made of


def _require(rule_holds: bool, message: str) -> None:
    """As `assert`, which python -O would leave out."""
    if not rule_holds:
        raise AssertionError(message)


def _name(explorer: object) -> str:
    return type(explorer).__name__


def _ask(explorer: Explorer, question: Question, seed: int = 0) -> list[Proposal]:
    rng = np.random.default_rng(seed)
    try:
        return explorer.explore_round(question.space, question.history, question.pending, question.parents, rng)
    except Exception as error:
        raise AssertionError(f"{_name(explorer)} must cope with {question.name}, got {error!r}") from error


def _with(question: Question, parents: Sequence[Any]) -> Question:
    return Question(question.name, question.space, question.history, question.pending, parents)


def _configs(proposals: Sequence[Proposal]) -> list[Config]:
    return [proposal.config for proposal in proposals]


def _decisions(proposals: Sequence[Proposal]) -> list[dict[str, Any]]:
    return [dict(proposal.decision) for proposal in proposals]


def _check_config(explorer: Explorer, space: Space, config: Config, situation: str) -> None:
    where = f"with {situation}, {_name(explorer)} must propose"
    try:
        written = space.nest(space.check(config))
    except SpaceError as error:
        raise AssertionError(f"{where} legal configurations, got {config!r}: {error}") from error
    _require(
        _equal(config, written),
        f"{where} configurations as the space writes them (native types, constants, groups), got {config!r} for {written!r}",
    )


def _equal(a: Any, b: Any) -> bool:
    """Equal in value and type, all the way down; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b or (a != a and b != b))


def _seen(question: Question) -> dict[str, Any]:
    """A copy of everything that an explorer could change."""
    parts = {
        "history": list(question.history),
        "pending": list(question.pending),
        "parents": list(question.parents),
        "space": repr(question.space),
        "encoded history": question.history.recent().points.x.tolist(),
    }
    return copy.deepcopy(parts)


def _population(
    explorer: Explorer, space: Any, synchronous: bool, mode: Mode, history: Sequence[Any] = ()
) -> Population:
    return Population(
        space, explorer, size=3, rounds=4, seed=5, mode=mode, quantile=0.4, synchronous=synchronous, history=history
    )


def _train(explorer: Explorer, population: Population) -> None:
    """Tell until done; whoever asks first is told last, and now and then one fails."""
    sign, space = population.history.sign, population.space
    waiting: list[Any] = []
    while not population.done:
        try:
            waiting += population.ask()
        except Exception as error:
            raise AssertionError(
                f"{_name(explorer)} must carry a run to its end, after {len(population.history)} observations got {error!r}"
            ) from error
        # An order that depends on what is in training alone, so that a resumed run tells in the same one.
        assignment = waiting.pop(waiting.index(max(waiting, key=lambda each: ((each.member * 2 + each.round) % 5, each.member))))
        fails = (assignment.member + 2 * assignment.round) % 7 == 5
        before = 0.0 if assignment.parent is None else population.history.find(assignment.parent).score  # type: ignore[union-attr]
        score = before + sign * toy_score(space, assignment.config)
        population.tell(assignment, np.nan if fails else score)
