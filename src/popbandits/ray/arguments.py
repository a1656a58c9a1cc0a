"""Arguments of Ray's schedulers that ours take in another form, and those that have no effect here."""

import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from popbandits.basics.rules import is_real
from popbandits.errors import ArgumentError
from popbandits.explorers import Explorer
from popbandits.ray.domains import Wanted, read_bounds, read_mutations
from popbandits.ray.nested import Path
from popbandits.selection import Selection


def make_explorer(kind: type[Explorer], resample_probability: float | None, perturbation_factors: Any) -> Explorer:
    """Make an explorer with the settings of Ray's PBT; warn where the method has no such setting.

    >>> from popbandits.explorers import PBT
    >>> make_explorer(PBT, 0.1, (1.5, 0.5))
    PBT(factors=(0.5, 1.5), resample=0.1, resample_label=0.5)
    """
    settings: dict[str, Any] = {}
    described: Any = kind
    has = {field.name for field in fields(described)} if is_dataclass(described) else set[str]()
    for setting, argument, given, reason in (
        ("resample", "resample_probability", resample_probability, "a model chooses all values"),
        ("factors", "perturbation_factors", perturbation_factors, "it multiplies no values"),
    ):
        if given is not None and setting in has:
            settings[setting] = _read_factors(given) if setting == "factors" else given
        elif given is not None:
            unused = f"{kind.__name__} has no use for {argument}={given!r}: {reason}"
            warnings.warn(f"{unused}; leave it out, or use PBT", stacklevel=3)
    return kind(**settings)


def _read_factors(factors: Any) -> tuple[float, ...]:
    ordered = isinstance(factors, tuple | list) and all(map(is_real, factors)) and tuple(sorted(factors))
    if not (ordered and len(ordered) == 2 and 0 < ordered[0] < 1 < ordered[1]):
        raise ArgumentError(
            f"perturbation_factors must be one below and one above 1, got {factors!r}; (1.2, 0.8) is usual"
        )
    return ordered


def check_quantile_fraction(quantile_fraction: float | None, selection: Selection | str | None) -> None:
    """Raise unless the fraction is above 0 and at most 0.5, and that of the selection if both are given."""
    if quantile_fraction is None:
        return
    if not (is_real(quantile_fraction) and 0 < quantile_fraction <= 0.5):
        raise ArgumentError(
            f"quantile_fraction must be above 0 and at most 0.5, got {quantile_fraction!r}; to replace no trial, give "
            "TuneConfig no scheduler"
        )
    if isinstance(selection, Selection) and (own := getattr(selection, "quantile", None)) != quantile_fraction:
        raise ArgumentError(
            f"quantile_fraction must be that of selection, {own!r}, got {quantile_fraction!r}; leave it out"
        )


def check_log_config(log_config: bool | None) -> None:
    """Warn users who expect the text files of Ray's schedulers."""
    if log_config:
        warnings.warn(
            "log_config=True: no pbt_policy_*.txt is written, since run.sqlite in the experiment's folder has every "
            "configuration; read it with popbandits.Result(folder).schedule, and leave log_config out",
            stacklevel=4,
        )


def read_wanted(space: Any, bounds: Any, mutations: Any) -> tuple[str, Mapping[Path, Wanted]]:
    """Return the name of the argument that sets the search space, and what it asks to explore."""
    names = {"space": space, "hyperparam_bounds": bounds, "hyperparam_mutations": mutations}
    given = [name for name, value in names.items() if value is not None]
    if len(given) > 1:
        raise ArgumentError(f"the search space is given once, got {' and '.join(given)}; drop one")
    if bounds is not None:
        return "hyperparam_bounds", read_bounds(bounds)
    if mutations is not None:
        return "hyperparam_mutations", read_mutations(mutations)
    return "space", {}
