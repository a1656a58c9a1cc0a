"""Checks what a run's file says of the run, before anybody computes with it."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from popbandits.errors import HistoryError
from popbandits.typing import is_real, is_whole

MEMBERS = 1_000_000
"""The most members that a run may have; its readers make arrays of that length."""
ROUNDS = 1_000_000_000
SECONDS = 1e11
"""Times are before this one, in the year 5138."""


def _within(value: Any, least: int, most: int) -> bool:
    return is_whole(value, least) and value <= most


def _is_recipe(value: Any) -> bool:
    """Tell whether a value is a dict of texts, but for the settings and the parts, which are dicts."""
    return isinstance(value, Mapping) and all(
        isinstance(one, Mapping if name in ("settings", "parts") else str) for name, one in value.items()
    )


RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "space": (lambda value: isinstance(value, str), "text"),
    "mode": (lambda value: value in ("max", "min"), "'max' or 'min'"),
    "size": (lambda value: value is None or _within(value, 1, MEMBERS), f"a whole number from 1 to {MEMBERS:,}"),
    "rounds": (
        lambda value: value is None or _within(value, 1, ROUNDS),
        f"a whole number from 1 to {ROUNDS:,}, or none",
    ),
    "seed": (lambda value: is_whole(value, 0), "a whole number of at least 0"),
    "agent": (lambda value: value is None or _is_recipe(value), "a recipe, or none"),
    "method": (lambda value: value is None or _is_recipe(value), "a recipe, or none"),
    "selection": (lambda value: value is None or _is_recipe(value), "a recipe, or none"),
    "created": (lambda value: is_real(value) and math.isfinite(value) and abs(value) < SECONDS, "a time in seconds"),
}
"""What may be known of a run: a test of the value, and the rule in words. Other names are somebody's own."""


def check_about(values: dict[str, Any]) -> dict[str, Any]:
    """The values by name, if each keeps its rule; HistoryError if one does not."""
    for name, (holds, rule) in RULES.items():
        if name in values and not holds(values[name]):
            raise HistoryError(f"{name} must be {rule}, got {values[name]!r:.80}")
    return values
