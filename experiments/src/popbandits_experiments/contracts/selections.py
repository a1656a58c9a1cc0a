"""The rules for selections, one check each: AssertionError if one is broken."""

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from popbandits.errors import ArgumentError
from popbandits.explorers import PBT
from popbandits.history import Assignment, History, Mode, Observation
from popbandits.history.memory import NO_INDEX
from popbandits.population import Population
from popbandits.selection import Picks, Selection
from popbandits.selection.selection import check_picks, checkpoints
from popbandits_experiments.contracts.contract import (
    by_name,
    require,
    require_equal,
    require_no_error,
    require_own_generator,
    require_resumable,
    run_checks,
)

SPACE = {"x": (0.0, 1.0)}
TIE_BREAKS = 40
"""Number of generators with which a choice among equal scores is repeated."""


def check_selection(selection: Selection) -> None:
    """Raise AssertionError, with the rule and the situation, if the selection breaks a rule.

    >>> from popbandits.selection import Truncation
    >>> check_selection(Truncation(quantile=0.5))
    """
    run_checks(SELECTION_CHECKS, selection)


@dataclass(frozen=True)
class RandomHistory:
    """Settings of a random history; each member continues from itself, or at times from member 0."""

    size: int = 4
    rounds: int = 6
    fails: float = 0.0
    """Probability that an interval fails."""
    collapse: bool = False
    """True if the whole last round fails."""
    lost: bool = False
    """True if the checkpoint of the best member turns out to be lost in the last round."""
    ties: bool = False
    uneven: bool = False
    """True if members are at different rounds, and the last one has not begun."""
    errors: bool = False
    """True if scores come with standard errors."""
    behaviours: bool = False
    """True if members report a behaviour, a list of numbers, as the metric of that name: neighbours the same."""

    def build(self, seed: int = 0, mode: Mode = "max") -> History:
        """Draw the history; a mode of "min" negates the scores and changes nothing else."""
        made: History = pickle.loads(_drawn(self, seed, mode))
        return made


@cache
def _drawn(settings: RandomHistory, seed: int, mode: Mode) -> bytes:
    """Draw a history once for all rules, which get copies: one of them may spoil its own."""
    rng = np.random.default_rng(seed)
    made = History(SPACE, mode=mode, size=settings.size, rounds=100)
    for round_ in range(settings.rounds):
        last = round_ == settings.rounds - 1
        best = None if made.best is None else made.best.key
        for member in range(settings.size):
            if settings.uneven and (member == settings.size - 1 or (member % 2 and round_ > settings.rounds // 2)):
                continue
            own = made.last_completed(0 if rng.random() < 0.2 else member)
            chance, noise = rng.random(), float(rng.normal())
            is_lost = settings.lost and last and member == 0 and best is not None
            failed = is_lost or chance < settings.fails or (settings.collapse and last)
            level = 0.0 if own is None else made.sign * own.score
            metrics: dict[str, Any] = {"standard_error": 0.5} if settings.errors else {}
            if settings.behaviours and not failed:
                metrics["behaviour"] = np.random.default_rng((seed, member // 2, round_)).uniform(-1, 1, 3).tolist()
            made.append(
                Observation(
                    member=member,
                    round=round_,
                    config={"x": float(rng.random())},
                    parent=best if is_lost else None if own is None else own.key,
                    score_before=np.nan if own is None or is_lost else own.score,
                    score=np.nan if failed else made.sign * (1.0 if settings.ties else level + noise),
                    status="lost" if is_lost else "failed" if failed else "completed",
                    metrics=metrics,
                )
            )
    return pickle.dumps(made)


RANDOM_HISTORIES: dict[str, RandomHistory] = {
    "some rounds": RandomHistory(),
    "the first round": RandomHistory(rounds=1),
    "a population of one": RandomHistory(size=1),
    "a population of one, failing": RandomHistory(size=1, collapse=True),
    "a large population": RandomHistory(size=13, rounds=4),
    "some failures": RandomHistory(size=6, fails=0.3),
    "everyone failing": RandomHistory(collapse=True),
    "everyone always failing": RandomHistory(fails=1.0),
    "a lost checkpoint": RandomHistory(lost=True),
    "a lost checkpoint, everyone failing": RandomHistory(lost=True, collapse=True),
    "equal scores": RandomHistory(ties=True),
    "members at different rounds": RandomHistory(size=6, uneven=True),
    "standard errors": RandomHistory(errors=True),
    "behaviours": RandomHistory(size=6, behaviours=True),
    "behaviours, some failures": RandomHistory(size=6, fails=0.3, behaviours=True),
}
"""Histories to check a selection with, by name."""


def picks_what_there_is(selection: Selection) -> None:
    """Check that each member gets a pick: weights of an available checkpoint, a configuration of the history."""
    for name, history, members in _situations():
        for asked in (members, members[:1]):
            _ask(selection, history, asked, name)


def replaces_what_failed(selection: Selection) -> None:
    """Check that a member that failed loads completed weights, unless there are none or all members restart."""
    for name, history, members in _situations():
        picks, states = _ask(selection, history, members, name), history.member_states()
        restarted = bool((picks.weights == NO_INDEX).all())
        for member, index in zip(members.tolist(), picks.weights.tolist(), strict=True):
            failed = history[int(states.latest[member])].failed
            require(
                not failed or index != NO_INDEX or restarted or not len(checkpoints(history)),
                f"with {name}, member {member} failed and must load available weights, got a fresh start",
            )


def leaves_one_member_alone(selection: Selection) -> None:
    """Check that a population of one continues with its own last weights."""
    history = RANDOM_HISTORIES["a population of one"].build()
    picks = _ask(selection, history, np.array([0]), "a population of one")
    require(
        picks.weights[0] in (history.member_states().latest[0], NO_INDEX),
        f"a population of one must continue with its own weights, got index {picks.weights[0]}",
    )


def decides_by_its_arguments_alone(selection: Selection) -> None:
    """Check that equal arguments and generators give equal picks, also by a pickled copy, without other randomness."""
    unused = pickle.dumps(selection)
    with require_own_generator(type(selection).__name__):
        for name, history, members in _situations():
            first, second = (_ask(selection, history, members, name, seed=3) for _ in range(2))
            fresh = _ask(pickle.loads(unused), history, members, name, seed=3)
            for again in (second, fresh):
                require_equal(first, again, f"with {name}, equal questions must have equal answers")


def leaves_its_arguments_alone(selection: Selection) -> None:
    """Check that the history and the members do not change."""
    for name, history, members in _situations():
        before = copy.deepcopy((list(history), members.tolist(), vars(history.member_states())))
        _ask(selection, history, members, name)
        after = list(history), members.tolist(), vars(history.member_states())
        require(repr(before) == repr(after), f"with {name}, a selection must not change its arguments")


def turns_with_the_direction(selection: Selection) -> None:
    """Check that the picks are the same with mode="min" and every score negated."""
    for name, settings in RANDOM_HISTORIES.items():
        up, down = (_ask(selection, h, _members(h), name) for h in (settings.build(), settings.build(mode="min")))
        require_equal(up, down, f"with {name}, it must minimise as it maximises (history.sign)")


def breaks_ties_at_random(selection: Selection) -> None:
    """Check that among members with equal scores, if some are replaced, they are not always the same."""
    history = RANDOM_HISTORIES["equal scores"].build()
    own = history.member_states().latest
    replaced = np.array([_ask(selection, history, np.arange(4), "ties", s).weights != own for s in range(TIE_BREAKS)])
    always = replaced.any() and not replaced.all() and bool((replaced == replaced[0]).all())
    require(not always, f"ties must be broken at random, got members {np.flatnonzero(replaced[0])} every time")


def resumes_where_it_stopped(selection: Selection) -> None:
    """Check that a run that was stored, stopped and resumed has the same history as one that was not."""
    build = partial(Population, SPACE, PBT(), size=3, rounds=12, seed=5, selection=selection)
    require_resumable(type(selection).__name__, build, _gain, length=17)


SELECTION_CHECKS: dict[str, Callable[[Selection], None]] = by_name(
    picks_what_there_is,
    replaces_what_failed,
    leaves_one_member_alone,
    decides_by_its_arguments_alone,
    leaves_its_arguments_alone,
    turns_with_the_direction,
    breaks_ties_at_random,
    resumes_where_it_stopped,
)
"""Every rule, by its name."""


# Helpers of the checks


def _situations() -> Iterator[tuple[str, History, Any]]:
    """Yield a name, a history, and the members that have finished an interval."""
    for name, settings in RANDOM_HISTORIES.items():
        for seed in range(2):
            history = settings.build(seed)
            yield name, history, _members(history)


def _members(history: History) -> Any:
    return np.flatnonzero(history.member_states().latest != NO_INDEX)


def _ask(selection: Selection, history: History, members: Any, name: str, seed: int = 0) -> Picks:
    with require_no_error(f"{type(selection).__name__} must cope with {name}, got"):
        picks = selection.select(history, members, np.random.default_rng(seed))
    try:
        return check_picks(picks, history, members, type(selection).__name__)
    except ArgumentError as error:
        raise AssertionError(f"with {name}, {error}") from error


def _gain(assignment: Assignment) -> float:
    """Return the change of the score in an interval: its value of x, and noise."""
    x: float = assignment.config["x"]
    return x + float(np.random.default_rng(assignment.key).normal())
