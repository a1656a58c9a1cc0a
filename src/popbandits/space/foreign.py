"""Ranges in the words of other libraries, refused with what to write instead."""

from collections.abc import Mapping
from typing import Any

from popbandits.basics.rules import is_real
from popbandits.errors import SpaceError
from popbandits.space.ranges import LogRange, written

_OURS = "write log(lower, upper), (lower, upper) or a list of choices"
_BRIDGES = {
    "optuna.": "Optuna's distributions are read by popbandits.adapters.optuna.space_from_optuna, got {got}; give "
    f"space_from_optuna({{{{...}}}}) as the space, or {_OURS}",
    "ray.tune.": "Ray Tune's distributions belong in the param_space of a ray.tune.Tuner, which the schedulers of "
    f"popbandits.ray (such as NearPBT) read, got {{got}}; here {_OURS}",
    "scipy.stats.": f"SciPy's distributions are not read, got {{got}}; {_OURS}",
}
"""By the module that an object comes from: which part of popbandits reads it, and the fix."""

_GRID = "grid_search"
_KINDS = ("type", "_type", "distribution", "dist")
_LOG = {"loguniform", "loguniformvalues", "qloguniform", "lograndint", "floatlog", "intlog", "log"}
_LINEAR = {"uniform", "quniform", "intuniform", "randint", "int", "integer", "float", "real", "double", "range"}
_CHOICE = {"categorical", "choice", "choices", "ordinal"}
_BOUNDS = (("low", "high"), ("lower", "upper"), ("min", "max"))
_PAIRS = ("bounds", "range", "_value", "value")
_LISTS = ("choices", "values", "categories", "options", "_value", "value")


def refuse_foreign(name: str, value: Any) -> None:
    """Raise SpaceError for an object of another library that describes a range."""
    for module, text in _BRIDGES.items():
        if type(value).__module__.startswith(module):
            raise SpaceError(f"{name!r}: {text.format(got=f'{value!r:.100}')}")


def refuse_description(name: str, group: Mapping[Any, Any]) -> None:
    """Raise SpaceError for a dict that describes a range, such as {"type": "loguniform", "low": 1e-5, "high": 1e-1}."""
    if isinstance(group.get(_GRID), list):
        raise SpaceError(
            f"{name!r}: choices are a list, got {dict(group)!r:.200}, Ray's grid_search; write {group[_GRID]!r:.200}"
        )
    for key in (key for key in _KINDS if isinstance(group.get(key), str)):
        meant = _meant(group, group[key].lower().replace("_", "").replace("-", ""))
        if meant is not None:
            raise SpaceError(
                f"{name!r}: a dict is a group of parameters, not the description of one, got {dict(group)!r:.200}; "
                f"write {meant:.200}, or Constant({key!r}, {group[key]!r}) if {name}.{key} is a constant"
            )


def likely_meant(group: Mapping[Any, Any]) -> str | None:
    """Write what a dict of nothing but bounds, or of one list of values, may be meant as; None for other dicts.

    >>> likely_meant({"min": 1e-5, "max": 1e-1}), likely_meant({"values": [32, 64]}), likely_meant({"lr": (0.1, 1.0)})
    ('log(1e-05, 0.1)', '[32, 64]', None)
    """
    if len(group) == 2 and any(low in group and high in group for low, high in _BOUNDS):
        return _meant(group, "uniform")
    return _meant(group, "choice") if len(group) == 1 else None


def _meant(group: Mapping[Any, Any], kind: str) -> str | None:
    """Write a described range as a user of popbandits does; None if the dict describes none of this kind."""
    if kind in _CHOICE:
        labels = next((group[key] for key in _LISTS if isinstance(group.get(key), list | tuple)), None)
        return None if labels is None else repr(list(labels))
    pairs = [(group[low], group[high]) for low, high in _BOUNDS if low in group and high in group]
    pairs += [group[key] for key in _PAIRS if isinstance(group.get(key), list | tuple) and len(group[key]) == 2]
    if kind not in _LOG | _LINEAR or not pairs or not all(map(is_real, pairs[0])):
        return None
    lower, upper = pairs[0]
    return repr(LogRange(lower, upper)) if kind in _LOG or group.get("log") is True else written(lower, upper)
