"""Parts of the contract suites that explorers and selections share; a broken rule is an AssertionError."""

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pprint import pformat
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from popbandits.engines.generators import read_states, used_since
from popbandits.history import Assignment, History, Mode
from popbandits.population import Population

RUNS: tuple[tuple[bool, Mode], ...] = ((True, "max"), (False, "min"))
"""Kinds of runs that are tried: whether synchronous, and the mode."""


def by_name(*checks: Callable[..., None]) -> dict[str, Callable[..., None]]:
    """Map the rule that each check is named after to the check."""
    return {check.__name__.replace("_", " "): check for check in checks}


def run_checks(checks: Mapping[str, Callable[..., None]], subject: Any, *arguments: Any, where: str = "") -> None:
    """Run every check on a copy of the subject; name the rule and the place in the error."""
    for rule, check in checks.items():
        try:
            check(copy.deepcopy(subject), *arguments)  # a check must not depend on those before it
        except AssertionError as error:
            raise AssertionError(f"{rule}{where}: {error}") from error


def require(rule_holds: bool, message: str) -> None:
    """Do what `assert` does, also with python -O."""
    if not rule_holds:
        raise AssertionError(message)


def require_equal(one: Any, other: Any, rule: str) -> None:
    """Compare values and types as they are written, with the keys of dicts in order; NaN equals NaN."""
    require(pformat(one) == pformat(other), f"{rule}, got {one!r} and {other!r}")


@contextmanager
def require_no_error(message: str) -> Iterator[None]:
    """Check that the block raises nothing; what it raises ends the message."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{message} {error!r}") from error


@contextmanager
def require_own_generator(name: str) -> Iterator[None]:
    """Check that the block leaves the global random generators as they are."""
    np.random.random(), random.random()  # noqa: NPY002 - so that seeding them again is seen
    before = read_states()
    yield
    require(not used_since(before), f"{name} must draw from the generator it is given, it used a global one")


def require_resumable(
    name: str, build: Callable[..., Population], gain: Callable[[Assignment], float], length: int
) -> None:
    """Check that a run that was stored, stopped and resumed has the same history as one that was not.

    Args:
        name: Name of the explorer or selection, for errors.
        build: Function that builds the population, from keyword arguments `synchronous`, `mode` and `history`.
        gain: Change of the score in an interval, as in `train_to_end`.
        length: Number of observations after which the run stops, in the middle of a round.
    """
    for synchronous, mode in RUNS:
        whole = train_to_end(name, build(synchronous=synchronous, mode=mode), gain).history
        with TemporaryDirectory() as folder:
            whole.save(folder)
            stored = History.load(folder)
        again = build(synchronous=synchronous, mode=mode, history=stored.prefix(length))
        for one, other in zip(whole, train_to_end(name, again, gain).history, strict=True):
            require(one == other, f"{name} must resume as if it had not stopped, got {other} for {one}")


def train_to_end(name: str, population: Population, gain: Callable[[Assignment], float]) -> Population:
    """Train a run to its end, telling out of order; one interval fails, and one member's scores have an error."""
    history, waiting = population.history, list[Assignment]()
    while not population.done:
        with require_no_error(f"after {len(history)} intervals, {name} must carry a run to its end, got"):
            waiting += population.ask()
        # The order depends only on what is pending, so that a resumed run has the same one.
        assignment = max(waiting, key=lambda each: ((each.member * 2 + each.round) % 5, each.member))
        waiting.remove(assignment)
        parent = None if assignment.parent is None else history.find(assignment.parent)
        score = (0.0 if parent is None else parent.score) + history.sign * gain(assignment)
        failed, error_known = assignment.key == (1, 1), assignment.member == 2
        population.tell(assignment, np.nan if failed else score, standard_error=0.5 if error_known else None)
    return population
