"""Checks what a run's file says of the run, before anybody computes with it."""

from typing import Any

from popbandits.errors import HistoryError
from popbandits.rules import Rule, real
from popbandits.settings import MEMBERS as MEMBERS
from popbandits.settings import SETTINGS

SECONDS = 1e11
"""Times are before this one, in the year 5138."""

RULES = {
    "space": Rule(lambda value: isinstance(value, str), "text"),
    "created": real("a time in seconds", lambda number: abs(number) < SECONDS),
    **{each.key: each.stored for each in SETTINGS.values() if each.recorded and each.stored},
}
"""What may be known of a run. Other names are somebody's own."""


def check_about(values: dict[str, Any]) -> dict[str, Any]:
    """The values by name, if each keeps its rule; HistoryError if one does not."""
    for name, rule in RULES.items():
        if name in values:
            rule.check(name, values[name], HistoryError)
    return values
