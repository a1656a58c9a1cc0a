"""The search space: it goes between configurations and the arrays that models use."""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
from ConfigSpace import ConfigurationSpace
from ConfigSpace.conditions import Condition, Conjunction

from popbandits.basics.typing import BoolArray, FloatArray, IntArray
from popbandits.basics.wording import suggestion
from popbandits.errors import SpaceError
from popbandits.space import storage
from popbandits.space.build import build, put, unbox
from popbandits.space.parameters import INACTIVE, Categorical, Fixed, Numerical, Scale, describe
from popbandits.space.points import Points
from popbandits.space.prior import Prior
from popbandits.space.rules import Table, compared, rule
from popbandits.space.schedules import Tables, held, offsets, shifted
from popbandits.space.schedules import check as check_schedules
from popbandits.space.written import doubts

_GIVE_UP = 10_000  # forbidden draws in a row
_GRID = 100  # levels at most
_LEAVES = {bool, float, int, str, tuple, type(None)}


class Space:
    """A search space and its encoding.

    >>> space = Space({"lr": (0.0, 0.5), "net": {"depth": (1, 5), "act": ["relu", "tanh"]}, "seed": 7})
    >>> points = space.encode([{"lr": 0.25, "net": {"depth": 2, "act": "tanh"}}])
    >>> points.x, points.h
    (array([[0.5 , 0.25]]), array([[1]]))
    >>> space.decode(points)
    [{'lr': 0.25, 'net': {'act': 'tanh', 'depth': 2}, 'seed': 7}]

    | attribute | meaning |
    |---|---|
    | configuration_space | the ConfigSpace object; do not change it |
    | names | every parameter, parents before children |
    | numerical, categorical | parameters of the columns of x and of h |
    | limited | numbers that only fall or only rise along a lineage |
    | fixed | whether there is nothing to tune: every parameter has one value |
    | order | column numbers, x before h, sorted so that parents come before children |
    | movable | (d,) numbers optimised by gradient: floats, and integers of many levels, that no condition depends on |
    | grids | by column, x of every level of the numbers of few levels that no condition depends on |
    | doubts | what in it may not be what the user meant, a sentence each; empty for a stored space |
    | schedules | values in each round of the numbers that follow a schedule, by name; see `space.schedules` |
    | prior | where good values are expected: what draws (`space.drawing`) come from; None for nowhere in particular |

    Args:
        space: A dict of ranges (tuples, or `log(lower, upper)` for a log scale), choices (lists), constants and further
            dicts; a `ConfigurationSpace` of ConfigSpace for conditions and forbidden combinations; or another `Space`.
    """

    prior: Prior | None = None

    def __init__(self, space: "ConfigurationSpace | Mapping[str, Any] | Space") -> None:
        if isinstance(space, Space):
            self.__dict__.update(space.__dict__)
            return
        made, self._paths = build(space)
        self.schedules: Tables = {}
        self.doubts = doubts(space, made)
        conditional = set(made.conditional_hyperparameters)
        parameters = {name: describe(hp, name in conditional) for name, hp in made.items()}
        self.configuration_space: ConfigurationSpace = made
        self.names: tuple[str, ...] = tuple(parameters)
        self._parameters = parameters
        self.numerical: tuple[Numerical, ...] = tuple(p for p in parameters.values() if isinstance(p, Numerical))
        self.categorical: tuple[Categorical, ...] = tuple(p for p in parameters.values() if isinstance(p, Categorical))
        self._fixed = tuple(p for p in parameters.values() if isinstance(p, Fixed))
        self.limited = tuple(p for p in self.numerical if p.only is not None)
        self.fixed = not (self.numerical or self.categorical)
        self._scale = Scale(self.numerical)
        self._conditions = {c.child.name: rule(c, parameters) for c in made.conditions}
        self._forbidden = [(clause, rule(clause, parameters)) for clause in made.forbidden_clauses]
        modelled = [*self.numerical, *self.categorical]
        self.order: tuple[int, ...] = tuple(modelled.index(p) for p in parameters.values() if not isinstance(p, Fixed))
        free = np.array([not made.children_of[p.name] for p in self.numerical], bool)
        few = np.array([p.levels is not None and p.levels <= _GRID for p in self.numerical], bool)
        self.movable: BoolArray = free & ~few
        self.grids: dict[int, FloatArray] = {j: self.numerical[j].grid() for j in np.flatnonzero(free & few).tolist()}
        if self._forbidden:
            self.sample(1, np.random.default_rng(0))  # to raise for an empty space now, not during a run

    def __repr__(self) -> str:
        return "\n  ".join(["Space(", *map(": ".join, self.rules())]) + "\n)"

    def rules(self) -> list[tuple[str, str]]:
        """List the name and values of each parameter, then the conditions, then what is never allowed, in words.

        >>> Space({"lr": (0.0, 0.5), "seed": 7}).rules()
        [('lr', 'float [0.0, 0.5]'), ('seed', 'always 7')]
        """
        rules = [(name, str(each).removeprefix(f"{name}: ")) for name, each in self._parameters.items()]
        rules += [(c.child.name, f"only if {_describe(c)}") for c in self.configuration_space.conditions]
        return rules + [("never", _describe(clause)) for clause, _ in self._forbidden]

    def rules_on(self, name: str) -> list[str]:
        """List the conditions and forbidden clauses that a parameter's value decides, in words."""
        conditions = [c for c in self.configuration_space.conditions if name in compared(c)]
        found = [f"{c.child.name} only if {_describe(c)}" for c in conditions]
        return found + [f"never {_describe(clause)}" for clause, _ in self._forbidden if name in compared(clause)]

    # Configurations

    def flatten(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration, flat or nested, by dotted names."""
        if not isinstance(config, Mapping):
            raise SpaceError(f"a configuration is a dict, got {config!r}; name its values")
        flat: dict[str, Any] = {}
        if _LEAVES.issuperset(map(type, config.values())):  # The usual case, several times as fast as the rest.
            return dict(config)
        for key, value in config.items():
            leaves = {key: value}
            if isinstance(value, Mapping):
                leaves = {f"{key}.{inner}": leaf for inner, leaf in self.flatten(value).items()}
            if twice := flat.keys() & leaves:
                raise SpaceError(f"{twice.pop()!r}: a value is given once, got it flat and nested; drop one")
            flat |= leaves
        return flat

    def nest(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a flat configuration in the nested form of the user's space."""
        nested: dict[str, Any] = {}
        for name, value in config.items():
            put(nested, self._paths.get(name, (name,)), value)
        return nested

    def check(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the flat configuration, with declared types and constants filled in; SpaceError if it is illegal."""
        return self._to_values(self._codes(config))

    def complete(self, config: Mapping[str, Any], *, drop_inactive: bool = False) -> dict[str, Any]:
        """Fill in ConfigSpace's defaults for missing active parameters, and return it as `check` does.

        Values of inactive parameters are an error, or are dropped with `drop_inactive`.

        >>> Space({"lr": (0.0, 0.5), "act": ["relu", "tanh"]}).complete({"act": "tanh"})
        {'act': 'tanh', 'lr': 0.25}
        """
        given = self._codes(config)
        defaults = {name: hp.default_value for name, hp in self.configuration_space.items() if name not in given}
        codes = given | {name: self._parameters[name].code(unbox(value)) for name, value in defaults.items()}
        active = self._table(self._points([codes])).active
        kept = set() if drop_inactive else given.keys()
        return self._to_values({name: code for name, code in codes.items() if active[name][0] or name in kept})

    def encode(self, configs: Sequence[Mapping[str, Any]]) -> Points:
        """Check and encode configurations, flat or nested; constants may be left out."""
        if len(configs) > 1 and (points := self._encode_columns(configs)) is not None:
            return points
        rows = [self._codes(config) for config in configs]
        points = self._points(rows)
        self._verify(points, rows)
        return points

    def decode(self, points: Points) -> list[dict[str, Any]]:
        """Return the configurations at points: their active parameters, in the form of the user's space."""
        codes = self._scale.codes(points.x)
        columns = {p.name: p.column(codes[:, j]) for j, p in enumerate(self.numerical)}
        columns |= {p.name: p.column(points.h[:, j]) for j, p in enumerate(self.categorical)}
        active = self._table(points).active
        columns |= {p.name: [p.labels[0] if on else INACTIVE for on in active[p.name]] for p in self._fixed}
        rows = zip(*(columns[name] for name in self.names), strict=True)
        configs = [dict(zip(self.names, row, strict=True)) for row in rows]
        if self._conditions:
            configs = [{k: v for k, v in config.items() if v is not INACTIVE} for config in configs]
        nested = any(len(path) > 1 for path in self._paths.values())
        return [self.nest(config) for config in configs] if nested else configs

    # Points

    def sample(self, n: int, rng: np.random.Generator) -> Points:
        """Draw n legal points, each parameter from its own distribution."""
        width = len(self.numerical) + len(self.categorical)
        if not self._forbidden:
            return self.from_quantiles(rng.random((n, width)))
        parts = [self._points([])]
        rejected = 0
        while (missing := n - sum(map(len, parts))) > 0:
            drawn = self.from_quantiles(rng.random((max(missing, 64), width)))
            parts.append(drawn[self.legal(drawn)][:missing])
            rejected = 0 if len(parts[-1]) else rejected + len(drawn)
            if rejected >= _GIVE_UP:
                never = "; ".join(_describe(clause) for clause, _ in self._forbidden)
                raise SpaceError(
                    f"the forbidden clauses must allow some configuration, got {rejected} forbidden draws in a "
                    f"row under {never}; drop a clause or narrow the ranges it restricts"
                )
        return Points.concatenate(parts)

    def with_prior(self, prior: Prior | None) -> "Space":
        """Return the same space with another prior."""
        made = Space(self)
        made.prior = prior
        return made

    def with_schedules(self, tables: Tables) -> "Space":
        """Return the same space with numbers that follow schedules; SpaceError if one cannot."""
        check_schedules(self._parameters, tables)
        made = Space(self)
        made.schedules = {name: tuple(map(float, table)) for name, table in tables.items()}
        return made

    def applied(self, config: Mapping[str, Any], round_: int) -> dict[str, Any]:
        """Return what a configuration means in a round: the same, but for the numbers that follow a schedule.

        >>> space = Space({"lr": (0.0, 1.0)}).with_schedules({"lr": (0.5, 0.25)})
        >>> space.applied({"lr": 0.75}, 0), space.applied({"lr": 0.75}, 1)
        ({'lr': 0.75}, {'lr': 0.5})
        """
        if not self.schedules:
            return dict(config)
        flat = self.flatten(config)
        numbers = {number.name: number for number in self.numerical}
        for name, table in self.schedules.items():
            if name in flat:
                flat[name] = shifted(numbers[name], flat[name], table, round_)
        return self.nest(flat)

    def hold(self, config: Mapping[str, Any], round_: int, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration in which what only falls or only rises does not pass the values trained with before.

        >>> from popbandits import only_falls
        >>> Space({"lr": only_falls((0.0, 1.0)), "clip": (0.0, 1.0)}).hold({"lr": 0.75, "clip": 0.5}, 1, {"lr": 0.5})
        {'lr': 0.5, 'clip': 0.5}

        Args:
            config: A configuration, flat or nested.
            round_: Round in which it will train.
            before: Values trained with before, by dotted name; they may be of some parameters only.
        """
        flat = self.flatten(config)
        for number in self.limited:
            if (name := number.name) in flat and name in before:
                flat[name] = held(number, flat[name], before[name], self.schedules.get(name, ()), round_)
        return self.nest(flat)

    def along(self, x: FloatArray, rounds: IntArray) -> FloatArray:
        """Return what x (n, d) of configurations means in rounds (n,), as `applied` does."""
        moved = x.copy()
        for j, number in enumerate(self.numerical):
            if (table := self.schedules.get(number.name)) is not None:
                moved[:, j] += offsets(number, table)[rounds.clip(max=len(table) - 1)]
        return moved.clip(0, 1)

    def from_quantiles(self, u: FloatArray) -> Points:
        """Return the points at quantiles u (n, d + m), numerical columns first; they may be forbidden."""
        return self.activate(self.from_quantiles_full(u))

    def from_quantiles_full(self, u: FloatArray) -> Points:
        """Return what `from_quantiles` does, with values for inactive parameters too."""
        modelled: list[Numerical | Categorical] = [*self.numerical, *self.categorical]
        assert u.shape == (len(u), len(modelled)), f"{u.shape} quantiles for {len(modelled)} parameters"
        return self._stack(len(u), {p.name: p.quantile(u[:, j]) for j, p in enumerate(modelled)})

    def snap(self, x: FloatArray) -> FloatArray:
        """Round integers and ordinals in x (..., d) to their nearest level; NaN is kept."""
        if not self._scale.discrete.any():
            return x
        return np.where(self._scale.discrete, self._scale.unit(self._scale.codes(x)), x)

    def codes(self, x: FloatArray) -> FloatArray:
        """Return the values of numbers (for an ordinal, its index) at x (n, d); NaN is kept."""
        return self._scale.codes(x)

    def unit(self, codes: FloatArray) -> FloatArray:
        """Return x (n, d) of values, at the nearest level within the bounds; NaN is kept."""
        return self.snap(self._scale.unit(codes.clip(self._scale.lower, self._scale.upper)))

    def activate(self, points: Points) -> Points:
        """Set parameters that are inactive by their conditions to NaN or -1."""
        if not self._conditions:
            return points
        active = self._table(points).active
        x, h = points.x.copy(), points.h.copy()
        for j, numerical in enumerate(self.numerical):
            x[~active[numerical.name], j] = np.nan
            assert not np.isnan(x[active[numerical.name], j]).any(), f"{numerical.name} is active but NaN"
        for j, categorical in enumerate(self.categorical):
            h[~active[categorical.name], j] = -1
            assert (h[active[categorical.name], j] >= 0).all(), f"{categorical.name} is active but -1"
        return Points(x, h)

    def legal(self, points: Points) -> BoolArray:
        """Return the mask of points for which no forbidden clause holds."""
        legal = np.ones(len(points), bool)
        if self._forbidden:
            table = self._table(points)
            for _, forbidden in self._forbidden:
                legal &= ~forbidden(table)
        return legal

    # Storage

    def to_json(self) -> str:
        """Return the space as JSON; SpaceError for labels that JSON cannot hold, such as functions."""
        return storage.dumps(self.configuration_space, self._paths, self.schedules)

    @staticmethod
    def from_json(text: str) -> "Space":
        """Read the space that `to_json` wrote.

        >>> Space.from_json(Space({"net": {"shape": [(3, 3), None]}}).to_json()).categorical[0].labels
        ((3, 3), None)
        """
        made, nested, schedules = storage.loads(text)
        space = Space(made)
        space._paths |= nested
        space = space.with_schedules(schedules)
        space.doubts = []  # It can no longer be changed.
        return space

    # Helpers

    def _codes(self, config: Mapping[str, Any]) -> dict[str, float]:
        """Return the code of each given value, checked on its own."""
        codes = {}
        for name, value in self.flatten(config).items():
            if name not in self._parameters:
                known = f"{', '.join(self.names)}{suggestion(name, self.names)}"
                raise SpaceError(f"{name!r}: a value needs a parameter, got {value!r}; there are {known}")
            codes[name] = self._parameters[name].code(value)
        return codes

    def _encode_columns(self, configs: Sequence[Mapping[str, Any]]) -> Points | None:
        """Encode flat configurations that name every parameter, column by column, which is much faster.

        Return None for other configurations, or if one is illegal: encoding them one by one finds the error.
        """
        names = self._parameters.keys()
        if self._conditions or not all(config.keys() == names for config in configs):
            return None
        try:
            codes = {name: p.codes([config[name] for config in configs]) for name, p in self._parameters.items()}
        except (OverflowError, SpaceError):
            return None
        stacked = self._stack(len(configs), codes)
        points = Points(self._scale.unit(stacked.x), stacked.h)
        return points if self.legal(points).all() else None

    def _points(self, rows: Sequence[Mapping[str, float]]) -> Points:
        codes = np.array([row.get(p.name, np.nan) for row in rows for p in self.numerical], float)
        h = np.array([row.get(p.name, -1) for row in rows for p in self.categorical], np.int64)
        x = self._scale.unit(codes.reshape(len(rows), len(self.numerical)))
        return Points(x, h.reshape(len(rows), len(self.categorical)))

    def _stack(self, n: int, columns: Mapping[str, FloatArray | IntArray]) -> Points:
        """Return the columns of numbers and labels, by name, as arrays of n rows."""
        x, h = np.empty((n, len(self.numerical))), np.empty((n, len(self.categorical)), np.int64)
        for array, parameters in ((x, self.numerical), (h, self.categorical)):
            for j, parameter in enumerate(parameters):
                array[:, j] = columns[parameter.name]
        return Points(x, h)

    def _verify(self, points: Points, rows: Sequence[Mapping[str, float]]) -> Table:
        """Raise unless exactly the active parameters are given and no forbidden clause holds."""
        table = self._table(points)
        for i, row in enumerate(rows):
            if len(row) == len(self.names) and not self._conditions:
                continue
            for name in self.names:  # parents first, so that the error names the cause
                active = table.active[name][i]
                if active and name not in row and not isinstance(self._parameters[name], Fixed):
                    given = self._given(row)
                    raise SpaceError(f"{name!r}: an active parameter needs a value, got {given}; add it")
                if name in row and not active:
                    [condition] = self.configuration_space.parent_conditions_of[name]
                    when, given = _describe(condition), self._given(row)
                    raise SpaceError(f"{name!r}: a value is given only if {when}, got {given}; drop it")
        for clause, forbidden in self._forbidden:
            for given in map(self._given, compress(rows, forbidden(table))):
                raise SpaceError(f"{_describe(clause)} is forbidden, got {given}; change one of these values")
        return table

    def _to_values(self, codes: Mapping[str, float]) -> dict[str, Any]:
        """Return the values of a configuration's codes; SpaceError if the combination is illegal."""
        table = self._verify(self._points([codes]), [codes])
        return {
            name: parameter.at(codes.get(name, 0))
            for name, parameter in self._parameters.items()
            if table.active[name][0]
        }

    def _given(self, row: Mapping[str, float]) -> dict[str, Any]:
        return {name: self._parameters[name].at(code) for name, code in row.items()}

    def _table(self, points: Points) -> Table:
        """Return the codes of all parameters, and the masks of where each is active."""
        n = len(points)
        table = Table({}, dict.fromkeys(self.names, np.ones(n, bool)))
        if not (self._conditions or self._forbidden):
            return table  # the codes are not needed
        codes = self._scale.codes(points.x)
        table.codes.update({p.name: codes[:, j] for j, p in enumerate(self.numerical)})
        table.codes.update({p.name: points.h[:, j].astype(float) for j, p in enumerate(self.categorical)})
        table.codes.update({p.name: np.zeros(n) for p in self._fixed})
        for name in self.names:  # parents come first
            if name in self._conditions:
                table.active[name] = self._conditions[name](table)
        return table


def _describe(clause: Any) -> str:
    """Describe a condition or forbidden clause briefly."""
    if isinstance(clause, Condition | Conjunction):
        return str(clause).replace(f"{clause.child.name} | ", "")
    return str(clause).replace("Forbidden: ", "")
