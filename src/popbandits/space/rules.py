"""Conditions and forbidden clauses, evaluated for many configurations at once.

ConfigSpace evaluates its rules on its own vectors, where an inactive parent is NaN and `NaN != value` activates a
child. Here a comparison with an inactive parameter is false, and floats that differ by no more than the encoding error
count as equal, so that encoding and decoding a configuration does not change which parameters are active.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from typing import Any

import ConfigSpace as cs
import numpy as np
import numpy.typing as npt
from ConfigSpace.conditions import Condition, Conjunction
from ConfigSpace.forbidden import ForbiddenConjunction, ForbiddenRelation

from popbandits.basics.typing import BoolArray, FloatArray
from popbandits.errors import SpaceError
from popbandits.space.parameters import Numerical, Parameter

Compare = Callable[[Any, Any], Any]

_COMPARISONS: dict[Compare, tuple[type, ...]] = {
    operator.eq: (
        *(cs.EqualsCondition, cs.InCondition),
        *(cs.ForbiddenEqualsClause, cs.ForbiddenInClause, cs.ForbiddenEqualsRelation),
    ),
    operator.ne: (cs.NotEqualsCondition,),
    operator.lt: (cs.LessThanCondition, cs.ForbiddenLessThanClause, cs.ForbiddenLessThanRelation),
    operator.le: (cs.ForbiddenLessThanEqualsClause, cs.ForbiddenLessThanEqualsRelation),
    operator.gt: (cs.GreaterThanCondition, cs.ForbiddenGreaterThanClause, cs.ForbiddenGreaterThanRelation),
    operator.ge: (cs.ForbiddenGreaterThanEqualsClause, cs.ForbiddenGreaterThanEqualsRelation),
}
"""The classes of ConfigSpace's rules, by what they compare with."""


@dataclass(frozen=True)
class Table:
    """The codes of n configurations, and whether each is active, by parameter name."""

    codes: dict[str, FloatArray]
    active: dict[str, BoolArray]


Rule = Callable[[Table], BoolArray]
"""Function that returns the mask of configurations for which a rule is true."""


def _compare_constants(parameter: Parameter, compare: Compare, codes: Sequence[float], table: Table) -> BoolArray:
    """Compare a parameter with constants: true where any comparison is true."""
    column = table.codes[parameter.name]
    found = np.zeros(len(column), bool)
    for code in codes:
        found |= compare(_difference(column, code, parameter), 0.0)
    return found & table.active[parameter.name]


def _compare_values(sides: tuple[Parameter, Parameter], compare: Compare, table: Table) -> BoolArray:
    """Compare two parameters with each other, by value and not by index."""
    found: BoolArray = np.all([table.active[side.name] for side in sides], axis=0)
    rows = np.flatnonzero(found)
    left, right = (_comparable(side, table.codes[side.name][rows]) for side in sides)
    if left.dtype == right.dtype == np.float64:
        left, right = _difference(left, right, *sides), np.zeros(())
    found[rows] = compare(left, right)
    return found


def _combine(parts: Sequence[Rule], join: Compare, table: Table) -> BoolArray:
    """Join several rules by `and` or by `or`."""
    return reduce(join, (part(table) for part in parts))


def rule(clause: Any, parameters: Mapping[str, Parameter]) -> Rule:
    """Convert a condition or forbidden clause of ConfigSpace to a rule for a Table."""
    if isinstance(clause, Conjunction | ForbiddenConjunction):
        both = isinstance(clause, cs.AndConjunction | cs.ForbiddenAndConjunction)
        parts = [rule(part, parameters) for part in clause.components]
        return partial(_combine, parts, operator.and_ if both else operator.or_)
    compare = next(compare for compare, kinds in _COMPARISONS.items() if type(clause) in kinds)
    if isinstance(clause, ForbiddenRelation):
        left, right = parameters[clause.left.name], parameters[clause.right.name]
        try:
            for a, b in product(left.labels or (0.0,), right.labels or (0.0,)):
                compare(a, b)
        except TypeError as error:
            raise SpaceError(f"{clause!r}: the two must be comparable, but {error}; drop the clause") from None
        return partial(_compare_values, (left, right), compare)
    target = clause.parent if isinstance(clause, Condition) else clause.hyperparameter
    values = clause.values if isinstance(clause, cs.InCondition | cs.ForbiddenInClause) else (clause.value,)
    parameter = parameters[target.name]
    # Find a label by equality, as ConfigSpace did when the clause was made.
    codes = (parameter.labels.index(value) if parameter.labels else value for value in values)
    return partial(_compare_constants, parameter, compare, list(map(float, codes)))


def compared(clause: Any) -> set[str]:
    """Return the names of the parameters whose values decide a condition or forbidden clause."""
    if isinstance(clause, Conjunction | ForbiddenConjunction):
        return set().union(*map(compared, clause.components))
    if isinstance(clause, ForbiddenRelation):
        return {clause.left.name, clause.right.name}
    return {(clause.parent if isinstance(clause, Condition) else clause.hyperparameter).name}


def _comparable(parameter: Parameter, codes: FloatArray) -> npt.NDArray[Any]:
    """Return the values to compare: numbers if every label is a number, else the labels."""
    labels = parameter.labels
    if not labels:
        return codes
    numbers = all(isinstance(label, int | float) for label in labels)
    values: npt.NDArray[Any] = np.fromiter(labels, float if numbers else object, len(labels))
    column: npt.NDArray[Any] = values[codes.astype(int)]
    return column


def _difference(left: FloatArray, right: FloatArray | float, *parameters: Parameter) -> FloatArray:
    """Return left - right, zero where the two differ by no more than the encoding error."""
    gap = left - right
    slack = [p.slack(left) for p in parameters if isinstance(p, Numerical) and p.kind == "float"]
    return np.where(np.abs(gap) <= sum(slack), 0.0, gap) if slack else gap
