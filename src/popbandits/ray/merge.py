"""Joins a scheduler's arguments with `param_space`, name by name, into the search space and its first values.

Ray's schedulers draw the first values from `param_space` and explore `hyperparam_bounds` or `hyperparam_mutations`. The
same is done here. What those do not give comes from `param_space`: the scale and type of a range, and all names that
they do not have.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, partial
from numbers import Integral
from typing import Any, Literal

from popbandits.basics.rules import is_real
from popbandits.errors import SpaceError
from popbandits.explorers import Explorer, Proposal
from popbandits.population import Population
from popbandits.population.start import Start, follow, resolve
from popbandits.ray.domains import Bounds, Domain, Labels, Range, Unreadable, Wanted, looks_logarithmic, read_domain
from popbandits.ray.nested import Path, find, leaves
from popbandits.ray.space import draw, is_drawn, is_open, of_generator
from popbandits.space import Space
from popbandits.space.build import put, unbox

Drawn = list[dict[str, Any]]
"""One configuration for each member, as Tune would draw them from `param_space`."""


@dataclass(frozen=True)
class Part:
    """The values of one hyperparameter that are explored, and those that members begin with."""

    explored: Domain
    begins: Domain
    first: Mapping[int, Any] = field(default_factory=dict)
    """First values by member; the other members begin anywhere in `begins`."""


def merge(
    argument: str, wanted: Mapping[Path, Wanted], param_space: Mapping[str, Any], draw: Callable[[], Drawn]
) -> "Search":
    """Join the values that Ray's `argument` asks to explore with a `param_space`.

    >>> from ray import tune
    >>> given = {"lr": tune.loguniform(1e-4, 1e-1), "act": tune.choice(["relu", "tanh"])}
    >>> merge("hyperparam_bounds", {("lr",): Bounds(1e-3, 1e-2)}, given, list).space
    Space(
      act: one of 'relu', 'tanh'
      lr: float [0.001, 0.01] log
    )
    """
    search = Search(argument, dict(leaves(param_space)), draw)
    bounded = {path for path, value in search.values.items() if is_open(value) and not is_drawn(value)}
    if unreadable := [path for path, want in wanted.items() if isinstance(want, Unreadable) and path not in bounded]:
        names = ", ".join(repr(".".join(path)) for path in unreadable)
        raise SpaceError(
            f"{names}: the range of a function cannot be read, got {wanted[unreadable[0]]} in {argument}; write "
            "tune.uniform(lower, upper) for lambda: random.uniform(lower, upper), tune.loguniform for a log scale, "
            "tune.randint(lower, upper + 1) for random.randint(lower, upper)"
        )
    search.parts = {path: search.join(path, want) for path, want in wanted.items()}
    rest = {path: value for path, value in search.values.items() if is_open(value) and path not in wanted}
    search.parts |= {path: Part(domain := read_domain(".".join(path), value), domain) for path, value in rest.items()}
    if rest and wanted:
        names = ", ".join(repr(".".join(path)) for path in rest)
        search.remarks.append(
            f"{names}: not in {argument}, and tuned too, because param_space leaves it open; write tune.sample_from in "
            "param_space where a trial must keep its first value"
        )
    return search


class Search:
    """A `param_space`, to which the wanted ranges and lists are fitted name by name.

    Args:
        argument: Name of the scheduler's argument with the wanted ranges and lists.
        values: What the `param_space` has, by path.
        draw: Function that draws configurations from the `param_space`.
    """

    def __init__(self, argument: str, values: dict[Path, Any], draw: Callable[[], Drawn]):
        self.argument, self.values, self._draw = argument, values, cache(draw)
        self.parts: dict[Path, Part] = {}
        self.remarks: list[str] = []
        """Remarks for the user."""

    @property
    def space(self) -> Space:
        """The space that is explored."""
        return _nest({path: part.explored for path, part in self.parts.items()})

    @property
    def begins(self) -> Space | None:
        """The space of the first configurations; None if it is the space that is explored."""
        if all(part.begins == part.explored and not part.first for part in self.parts.values()):
            return None
        return _nest({path: part.begins for path, part in self.parts.items()})

    def join(self, path: Path, want: Wanted) -> Part:
        """Fit one name; SpaceError where the two contradict each other."""
        name = ".".join(path)
        if path not in self.values:
            return self._absent(name, path, want)
        value = self.values[path]
        remark = f"{name!r}: {self.argument} has {want}"
        if is_drawn(value):
            return self._begin(remark, want, self._draws(path), "draws")
        if not is_open(value):
            return self._begin(remark, want, [value], "has")
        have = read_domain(name, value)
        if isinstance(want, Unreadable):
            self.remarks.append(f"{remark}, whose range cannot be read; param_space's is explored, {have}")
            return Part(have, have)
        if isinstance(have, Labels) or isinstance(want, Labels):
            return self._labelled(remark, path, want, have)
        return self._ranges(remark, want, have)

    def _absent(self, name: str, path: Path, want: Wanted) -> Part:
        """Explore a name that `param_space` does not have: Ray adds it too."""
        for other in self.values:
            if other[: len(path)] == path or path[: len(other)] == other:
                raise SpaceError(
                    f"{name!r}: a parameter cannot also be a group, got {want} in {self.argument} and "
                    f"{'.'.join(other)!r} in param_space; rename one"
                )
        if close := get_close_matches(name, [".".join(other) for other in self.values], n=1, cutoff=0.8):
            self.remarks.append(
                f"{name!r}: {self.argument} has {want}, and param_space has no such name, but {close[0]!r}; it is "
                "added, as in Ray; rename it if that one is meant"
            )
        domain = _complete(want)
        return Part(domain, domain)

    def _ranges(self, remark: str, want: Bounds | Range, have: Range) -> Part:
        """Explore the wanted range, on a log scale if either has one; begin in the overlap of the two."""
        explored = _complete(want, have)
        assert isinstance(explored, Range)
        if isinstance(want, Range) and want.log != have.log:
            self.remarks.append(f"{remark}, and param_space has {have}; the log scale is kept")
        if explored.log and explored.lower <= 0:
            explored = replace(explored, lower=have.lower)
            self.remarks.append(
                f"{remark}, and param_space has {have}; a log range is above 0, so {explored} is explored"
            )
        common = replace(explored, lower=max(explored.lower, have.lower), upper=min(explored.upper, have.upper))
        if not common.lower <= common.upper:
            raise SpaceError(f"{remark}, and param_space has {have}: they have nothing in common; make them agree")
        if (explored.lower, explored.upper) != (common.lower, common.upper):
            self.remarks.append(
                f"{remark}, which reaches beyond what param_space has, {have}; trials begin in both, and all of "
                f"{explored} is explored, as in Ray; make the two agree to stay in param_space's"
            )
        if explored.step is None or common == explored:
            return Part(explored, common)
        levels = tuple(filter(common.holds, explored.levels(remark)))
        return Part(explored, Labels(levels, ordered=True) if levels else explored)

    def _labelled(self, remark: str, path: Path, want: Any, have: Domain) -> Part:
        """Explore the wanted values, where one of the two is a list; begin with the values in both."""
        apart = SpaceError(f"{remark}, but param_space has {have}: they have nothing in common; drop one of the two")
        if isinstance(want, Bounds | Range):
            assert isinstance(have, Labels)
            explored = _complete(want, values=have.values)
            if not any(map(explored.holds, have.values)):
                raise apart
            self.remarks.append(
                f"{remark}, and param_space has {have}; trials begin with those, and all of {explored} is explored, as "
                f"in Ray; take the name out of {self.argument} to stay with those"
            )
            return self._begin(remark, want, self._draws(path), "draws")
        if isinstance(have, Range):
            self.remarks.append(f"{remark}, and param_space has {have}; trials begin with the listed values")
            return Part(want, want)
        common = Labels(tuple(filter(have.holds, want.values)), want.ordered)
        if not common.values:
            raise apart
        if len(common.values) < len(want.values):
            self.remarks.append(
                f"{remark}, and param_space has {have}; trials begin with what is in both, and all of the former are "
                "tried, as in Ray; make the two agree to stay in param_space's"
            )
        return Part(want, common)

    def _begin(self, remark: str, want: Wanted, values: list[Any], verb: Literal["has", "draws"]) -> Part:
        """Begin with values from `param_space`: a constant for one member, or a draw for each."""
        values = [tuple(value) if isinstance(value, list) else unbox(value) for value in values]
        if isinstance(want, Bounds | Range) and (odd := [value for value in values if not is_real(value)]):
            raise SpaceError(f"{remark}, but param_space {verb} {odd[0]!r}, which is no number; drop one of the two")
        explored = _complete(want, values=values)
        known = verb == "has" or not isinstance(want, Bounds)
        if not known and isinstance(explored, Range) and looks_logarithmic(values, explored):
            explored = replace(explored, log=True)
            self.remarks.append(
                f"{remark}, and what param_space {verb} is spread as on a log scale, {_listed(values)}; {explored} is "
                "explored; write tune.loguniform or tune.uniform in param_space to say which is meant"
            )
        outside = [value for value in values if not explored.holds(value)]
        if outside:
            self.remarks.append(
                f"{remark}, and param_space {verb} {outside[0]!r}, which is outside; no trial begins with that"
            )
        first = {member: _nearest(explored, v) for member, v in enumerate(values) if explored.holds(v)}
        return Part(explored, explored, first)

    def _draws(self, path: Path) -> list[Any]:
        """Draw a value for each member, as Tune would."""
        return [find(config, path) for config in self._draw()]


def _complete(want: Wanted, have: Range | None = None, values: Sequence[Any] = ()) -> Domain:
    """Complete a wanted range with the scale and type from `param_space`, which has a range or values."""
    if not isinstance(want, Bounds | Range):
        assert isinstance(want, Labels)
        return want
    ends = want.lower, want.upper
    # In Ray, values stay whole numbers if they begin so; here only if the bounds are whole too.
    whole = bool(values) and all(isinstance(value, Integral) and not isinstance(value, bool) for value in values)
    whole = whole and all(float(end).is_integer() for end in ends)
    whole = whole or any(isinstance(each, Range) and each.integer for each in (have, want))
    lower, upper = (math.ceil(ends[0]), math.floor(ends[1])) if whole else map(float, ends)
    if isinstance(want, Range):
        return replace(want, lower=lower, upper=upper, log=want.log or bool(have and have.log), integer=whole)
    if have is None:
        return Range(lower, upper, integer=whole)
    if have.integer and have.step is None and upper == have.upper + 1:
        upper = have.upper  # As in tune.randint, whose upper bound is exclusive.
    return replace(have, lower=lower, upper=upper)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3g}" for value in values[:3]) + (", ..." if len(values) > 3 else "")


def _nearest(domain: Domain, value: Any) -> Any:
    """Convert a value that a domain holds to the domain's type and step."""
    if isinstance(domain, Labels):
        return value
    if domain.step is not None:
        return min(domain.levels("step"), key=lambda level: abs(level - value))
    return round(value) if domain.integer else float(value)


def _nest(domains: Mapping[Path, Domain]) -> Space:
    nested: dict[str, Any] = {}
    for path, domain in domains.items():
        put(nested, path, domain.hyperparameter(".".join(path)))
    return Space(nested)


ORIGIN = {"start": "param_space"}
"""Origin of a first configuration, as it is recorded."""


def find_search(
    wanted: tuple[str, Mapping[Path, Wanted]],
    tune_controller: Any,
    explorer: Explorer,
    size: int,
    seed: int,
    start: Start,
    rounds: int | None,
) -> tuple[Space, Start]:
    """Return the search space and the first configurations; remarks are given as warnings.

    Args:
        wanted: Name of the scheduler's argument, and the values that it asks to explore.
        tune_controller: Tune's controller, whose generator has the `param_space`.
        explorer: Explorer of the run.
        size: Number of members.
        seed: Seed of the draws.
        start: Configurations of the first members; the others follow `param_space`.
        rounds: Number of rounds, for schedules in the start; None if unknown.
    """
    param_space = of_generator(tune_controller.search_alg)
    search = merge(*wanted, param_space, partial(draw, param_space, tune_controller, size, seed))
    if not search.parts:
        raise SpaceError(
            f"param_space must leave something open, got {param_space!r}; use tune.uniform, tune.choice, ... "
            "in it, or give the scheduler a space"
        )
    for remark in search.remarks:
        warnings.warn(remark, stacklevel=2)
    space, start = follow(search.space, start, rounds)
    given = resolve(start, space, size)
    return space, [*given, *_first(search, explorer, size, seed)[len(given) :]]


def _first(search: Search, explorer: Explorer, size: int, seed: int) -> list[Proposal]:
    """Return the first configurations, if `param_space` restricts them; else an empty list.

    They are the population's own, spread over the first values, with Tune's draws and constants put in.
    """
    begins = search.begins
    if begins is None:
        return []
    assignments = Population(begins, explorer, size=size, rounds=None, seed=seed).ask()
    configs = [begins.flatten(assignment.config) for assignment in assignments]
    for path, part in search.parts.items():
        for member, value in part.first.items():
            configs[member][".".join(path)] = value
    return [Proposal(begins.nest(config), ORIGIN) for config in configs]
