"""The rules for explorers on every space, one check each: AssertionError if one is broken."""

import copy
import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from popbandits.explorers import Explorer, Proposal, as_explorer
from popbandits.history import Config
from popbandits.population import Population
from popbandits.space import Space
from popbandits_experiments.contracts.contract import (
    RUNS,
    by_name,
    require,
    require_equal,
    require_no_error,
    require_own_generator,
    require_resumable,
    run_checks,
    train_to_end,
)
from popbandits_experiments.contracts.situations import A_FEW_ROUNDS, SITUATIONS, Question, question, toy_score
from popbandits_experiments.contracts.spaces import spaces


def check_explorer(explorer: Any, space: Any = None) -> None:
    """Raise AssertionError, with the rule and the situation, if the explorer breaks a rule.

    `space` is anything a `Population` takes; without it, all of `spaces()` are used.
    """
    explorer = as_explorer(explorer)
    for name, given in (spaces() if space is None else {"given": space}).items():
        run_checks(EXPLORER_CHECKS, explorer, given, where=f", on the space {name!r}")


def proposes_legal_configurations(explorer: Explorer, space: Any) -> None:
    """Check that in any situation configurations are within bounds, of declared types, active only, not forbidden."""
    for situation in SITUATIONS:
        asked = question(space, situation)
        for config in _configs(_ask(explorer, asked)):
            _check_config(explorer, asked.space, config, situation)


def proposes_for_each_member(explorer: Explorer, space: Any) -> None:
    """Check that each member gets a proposal, and that `explore` and `explore_round` agree."""
    asked = question(space)
    parent = asked.parents[0]
    for parents in ([parent], [parent, None, parent, parent]):
        got = _ask(explorer, replace(asked, parents=parents))
        require(
            len(got) == len(parents) and all(isinstance(each, Proposal) for each in got),
            f"{_name(explorer)} must return a Proposal for each of {len(parents)} members, got {got!r}",
        )
    rng = np.random.default_rng(0)
    one = explorer.explore(asked.space, asked.history, asked.pending, parent, rng)
    same = _configs(_ask(explorer, replace(asked, parents=[parent])))
    require_equal([one], same, f"{_name(explorer)}.explore and explore_round must agree on one member")


def decides_by_its_arguments_alone(explorer: Explorer, space: Any) -> None:
    """Check that equal arguments and generators give equal answers, and that no other randomness is used."""
    asked = question(space)
    with require_own_generator(_name(explorer)):
        first, second = _ask(explorer, asked), _ask(explorer, asked)
    require_equal(first, second, f"{_name(explorer)} must answer the same when asked the same with equal generators")


def leaves_its_arguments_alone(explorer: Explorer, space: Any) -> None:
    """Check that the space, the history, the pending configurations and the parents do not change."""
    for name in (A_FEW_ROUNDS, "one observation"):
        asked = question(space, name)
        before = _snapshot(asked)
        _ask(explorer, asked)
        for part, value in _snapshot(asked).items():
            require_equal(before[part], value, f"{_name(explorer)} must not change its arguments: {part} was changed")


def has_no_memory(explorer: Explorer, space: Any) -> None:
    """Check that a new pickled copy answers like the original after use."""
    with require_no_error(f"{_name(explorer)} must survive pickle, got"):
        unused = pickle.loads(pickle.dumps(explorer))
    for name in ("an empty history", "some failures"):
        _ask(explorer, question(space, name), seed=1)
    used, fresh = (_configs(_ask(each, question(space))) for each in (explorer, unused))
    require_equal(used, fresh, f"{_name(explorer)} must not remember what it was asked: a new copy answers otherwise")


def records_plain_decisions(explorer: Explorer, space: Any) -> None:
    """Check that decisions survive JSON: strings, numbers, booleans, None, lists, and dicts with string keys."""
    for name in (A_FEW_ROUNDS, "failures only"):
        for proposal in _ask(explorer, question(space, name)):
            decision = dict(proposal.decision)
            with require_no_error(f"{_name(explorer)} must record plain values, got {decision!r}:"):
                again = json.loads(json.dumps(decision, allow_nan=False))
            require_equal(decision, again, f"{_name(explorer)} must record what JSON gives back")


def turns_with_the_direction(explorer: Explorer, space: Any) -> None:
    """Check that the decision is the same with mode="min" and every score negated."""
    up, down = (_configs(_ask(explorer, question(space, mode=mode))) for _, mode in RUNS)
    require_equal(up, down, f"{_name(explorer)} must minimise as it maximises (Rows and history.sign turn scores)")


def carries_a_whole_run(explorer: Explorer, space: Any) -> None:
    """Check that a population finishes, with failures on the way, in synchronous and asynchronous runs."""
    space = Space(space)
    for synchronous, mode in RUNS:
        population = _population(explorer, space)(synchronous=synchronous, mode=mode)
        run = train_to_end(_name(explorer), population, lambda assignment: toy_score(space, assignment.config))
        for observation in run.history:
            _check_config(explorer, space, observation.config, f"a run in mode {mode!r}")


def resumes_where_it_stopped(explorer: Explorer, space: Any) -> None:
    """Check that a run that was stored, stopped and resumed has the same history as one that was not."""
    space = Space(space)
    require_resumable(
        _name(explorer), _population(explorer, space), lambda assignment: toy_score(space, assignment.config), length=4
    )


EXPLORER_CHECKS: dict[str, Callable[[Explorer, Any], None]] = by_name(
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
"""Every rule, by its name."""


# Helpers of the checks


def _name(explorer: object) -> str:
    return type(explorer).__name__


def _ask(explorer: Explorer, asked: Question, seed: int = 0) -> list[Proposal]:
    rng = np.random.default_rng(seed)
    with require_no_error(f"{_name(explorer)} must cope with {asked.name}, got"):
        return explorer.explore_round(asked.space, asked.history, asked.pending, asked.parents, rng)


def _configs(proposals: Sequence[Proposal]) -> list[Config]:
    return [proposal.config for proposal in proposals]


def _check_config(explorer: Explorer, space: Space, config: Config, situation: str) -> None:
    where = f"with {situation}, {_name(explorer)} must propose"
    with require_no_error(f"{where} legal configurations, got {config!r}:"):
        written = space.nest(space.check(config))
    rule = "configurations as the space writes them (native types, constants, groups)"
    require_equal(config, written, f"{where} {rule}")


def _snapshot(asked: Question) -> dict[str, Any]:
    """Copy everything that an explorer could change."""
    parts = {
        "history": list(asked.history),
        "pending": list(asked.pending),
        "parents": list(asked.parents),
        "space": repr(asked.space),
        "encoded history": asked.history.recent().points.x.tolist(),
    }
    return copy.deepcopy(parts)


def _population(explorer: Explorer, space: Space) -> Callable[..., Population]:
    return partial(Population, space, explorer, size=3, rounds=3, seed=5)
