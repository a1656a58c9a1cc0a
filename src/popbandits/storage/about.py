"""Checks of a run's metadata, as read from its file."""

from typing import Any

from popbandits.basics.rules import Rule, real
from popbandits.basics.settings import MEMBERS as MEMBERS
from popbandits.basics.settings import SETTINGS
from popbandits.errors import HistoryError

MAX_TIME_SECONDS = 1e11
"""Upper limit of times, in seconds since 1970: the year 5138."""


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


RULES = {
    "space": Rule(lambda value: isinstance(value, str), "text"),
    "source": Rule(_is_texts, "a dict of texts"),
    "created": real("a time in seconds", lambda number: abs(number) < MAX_TIME_SECONDS),
    **{each.key: each.stored for each in SETTINGS.values() if each.recorded and each.stored},
}
"""Rules for the metadata of a run, by name. Other names are the user's."""


def check_about(values: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata unchanged; raise HistoryError if a value breaks its rule."""
    for name, rule in RULES.items():
        if name in values:
            rule.check(name, values[name], HistoryError)
    return values
