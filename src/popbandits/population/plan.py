"""The plan of a run: everything that its decisions depend on besides the results, resolved and checked once."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from popbandits.basics.settings import Explore, Mode, check
from popbandits.errors import ArgumentError
from popbandits.explorers import Explorer, Proposal, as_explorer, default_explorer
from popbandits.methods import choose
from popbandits.population.start import Start, follow, resolve
from popbandits.selection import Selection
from popbandits.space import Space

CONTROLLED = 4
"""Members from which on a method that keeps the start has a control, unless the user says otherwise."""


@dataclass(frozen=True)
class Plan:
    """What a population, its record, Ray's schedulers and the command line are made from; `Plan.make` makes one."""

    space: Space
    """The search space, with what is believed about good values before anything is tried."""
    method: Any
    """The method as an object: an explorer, or any object with an `explore` method."""
    selection: Selection
    explore: Explore
    start: tuple[Proposal, ...]
    """Configurations of the first members, with their origin; can be given as `start` again."""
    size: int
    rounds: int | None
    seed: int
    mode: Mode
    synchronous: bool
    initial_score: float | None
    control: bool
    """Whether member 0 stays on the start."""

    @cached_property
    def explorer(self) -> Explorer:
        """The method as an explorer."""
        return as_explorer(self.method)

    @property
    def quantile(self) -> float | None:
        """The selection's quantile; None if it has none."""
        return getattr(self.selection, "quantile", None)

    @staticmethod
    def make(
        *,
        space: Any,
        method: Any,
        size: int,
        rounds: int | None,
        seed: int,
        mode: Mode,
        quantile: float | None,
        explore: Explore | None,
        synchronous: bool,
        initial_score: float | None,
        start: Start,
        selection: Selection | str | None,
        control: bool | None,
    ) -> "Plan":
        """Resolve the arguments of `Population`, names or objects; raise the error of any that is wrong."""
        made, chosen = Space(space), choose(method, selection, quantile, explore)
        check("population", size, "size")
        check("rounds", rounds)
        check("seed", seed)
        size, seed, rounds = int(size), int(seed), None if rounds is None else int(rounds)  # Numpy's cannot be stored.
        others: dict[str, Any] = {"mode": mode, "synchronous": synchronous, "initial_score": initial_score}
        others["control"] = control
        for name, value in (others | {"explore": chosen.explore}).items():
            check(name, value)
        made, given = follow(made, start, rounds)
        first = resolve(given, made, size)
        if control and not first:
            raise ArgumentError("the control trains with the start, got control=True without one; give start")
        method = default_explorer(bool(first)) if chosen.method is None else chosen.method
        explorer = as_explorer(method)
        if control is None:
            others["control"] = bool(first) and size >= CONTROLLED and explorer.keeps_start
        made = made.with_prior(explorer.make_prior(made, [proposal.config for proposal in first]))
        parts = vars(chosen) | {"method": method}
        return Plan(made, **parts, start=first, size=size, rounds=rounds, seed=seed, **others)
