"""Conversion between records and table rows; rows and metadata are checked when read: anyone may have written them."""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from popbandits.basics.records import STATUSES, Assignment, Decision, Event, Key, Observation, assemble, broken_rule
from popbandits.basics.rules import Rule, real, whole
from popbandits.basics.settings import MEMBERS, SETTINGS
from popbandits.errors import HistoryError
from popbandits.space.storage import pack, unpack, unpack_all

OBSERVATION_COLUMNS = (
    "member, round, config, parent_member, parent_round, score_before, score, steps, seconds, status, metrics, decision"
)
DECISION_COLUMNS = "member, round, config, parent_member, parent_round, given, seconds, decision, fallback, time"
FIELDS = tuple(field.name for field in fields(Observation))
EVENT_COLUMNS = "id, time, kind, member, round, text, data"

WHOLE, REAL = whole(0), real("a finite number")
DICT, STRING = Rule(lambda value: type(value) is dict, "a dict"), Rule(lambda value: type(value) is str, "text")
"""Rules for the values of decisions and events."""

Row = tuple[Any, ...]

MAX_TIME_SECONDS = 1e11
"""Upper limit of times, in seconds since 1970: the year 5138."""


TEXTS = Rule(lambda value: isinstance(value, dict) and all(map(STRING.holds, value.values())), "a dict of texts")

ABOUT_RULES = {
    "space": STRING,
    "source": TEXTS,
    "versions": TEXTS,
    "created": real("a time in seconds", lambda number: abs(number) < MAX_TIME_SECONDS),
    **{each.key: each.stored for each in SETTINGS.values() if each.recorded and each.stored},
}
"""Rules for the metadata of a run, by name. Other names are the user's."""


# Written


def observation_row(o: Observation) -> Row:
    """Return the values of the columns OBSERVATION."""
    return (
        *o.key,
        json.dumps(pack(o.config, f"configuration of {o.key}")),
        *_pair(o.parent),
        _null(o.score_before),
        _null(o.score),
        o.steps,
        o.seconds,
        o.status,
        json.dumps(dict(o.metrics)),
        json.dumps(dict(o.decision)),
    )


def decision_row(d: Decision) -> Row:
    """Return the values of the columns DECISION."""
    a = d.assignment
    fallback = a.decision.get("fallback")
    return (
        *a.key,
        json.dumps(pack(a.config, f"configuration of {a.key}")),
        *_pair(a.parent),
        json.dumps({"known": d.known, "training": d.training}),
        d.seconds,
        json.dumps(dict(a.decision)),
        None if fallback is None else str(fallback),
        d.time,
    )


def event_row(e: Event) -> Row:
    """Return the values of the columns EVENT."""
    return None, e.time or time.time(), e.kind, e.member, e.round, e.text, json.dumps(dict(e.data))


def _pair(key: Key | None) -> tuple[int | None, int | None]:
    return (None, None) if key is None else (int(key[0]), int(key[1]))


def _null(value: float) -> float | None:
    """Turn NaN into None, as SQLite would into NULL."""
    return value if math.isfinite(value) else None


# Read


def check_about(values: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a run unchanged; raise HistoryError if a value breaks its rule."""
    for name, rule in ABOUT_RULES.items():
        if name in values:
            rule.check(name, values[name], HistoryError)
    return values


def observations(rows: Sequence[Row]) -> list[Observation]:
    """Read rows of OBSERVATION, checked column by column; one by one if that check fails, for its error."""
    try:
        found = _in_bulk(rows)
    except (RecursionError, TypeError, ValueError):
        found = None
    found = [observation(row) for row in rows] if found is None else found
    if (most := max((one.member for one in found), default=0)) >= MEMBERS:
        raise HistoryError(f"members are 0 to {MEMBERS - 1:,}, got an observation of member {most}")
    return found


def observation(row: Row) -> Observation:
    """Read an observation from one row; raise HistoryError, or an error of its JSON, if it is invalid."""
    member, round_, config, parent_member, parent_round, before, score, steps, seconds, status, metrics, decision = row
    before, score = (math.nan if one is None else one for one in (before, score))
    parent, reported, chosen = _key(parent_member, parent_round), json.loads(metrics), json.loads(decision)
    return Observation(member, round_, unpack(config), parent, before, score, steps, seconds, status, reported, chosen)


def _in_bulk(rows: Sequence[Row]) -> list[Observation] | None:
    """Read all rows in a tenth of the time it takes one by one; return None if any is invalid."""
    member, round_, config, of_member, of_round, before, score, steps, seconds, status, metrics, decision = zip(
        *rows, strict=True
    )
    parsed = [unpack_all(config), unpack_all(metrics, tuples=False), unpack_all(decision, tuples=False)]
    names = ("parent_member", "score_before", "score", "steps", "seconds")
    numbers: dict[str, Any] = dict(zip(names, (of_member, before, score, steps, seconds), strict=True))
    numbers |= {name: [one == name for one in status] for name in ("completed", "lost")}
    sound = (
        _count(member)
        and _count(round_)
        and all(set(map(type, values)) <= {dict} for values in parsed)
        and set(status) <= set(STATUSES)
        and all((a is None) == (b is None) for a, b in zip(of_member, of_round, strict=True))
        and _count(one for one in (*of_member, *of_round) if one is not None)
        and set(map(type, (*before, *score, *steps, *seconds))) <= {float, type(None)}
        and broken_rule({name: np.array(column, np.float64) for name, column in numbers.items()}) is None
    )
    if not sound:
        return None
    parents = [None if m is None else (m, r) for m, r in zip(of_member, of_round, strict=True)]
    befores, scores = ([math.nan if one is None else one for one in column] for column in (before, score))
    columns = (member, round_, parsed[0], parents, befores, scores, steps, seconds, status, *parsed[1:])
    return [assemble(dict(zip(FIELDS, values, strict=True))) for values in zip(*columns, strict=True)]


def _count(values: Any) -> bool:
    """Tell whether all are integers of at least 0."""
    values = list(values)
    return set(map(type, values)) <= {int} and min(values, default=0) >= 0


def decision(row: Row) -> Decision:
    """Read a decision from one row; raise HistoryError, or an error of its JSON, if it is invalid."""
    member, round_, config, parent_member, parent_round, given, seconds, how, _, when = row
    known = _checked(DICT, json.loads(given), "given")
    assignment = Assignment(
        *_wholes(member, round_),
        config=_checked(DICT, unpack(config), "config"),
        parent=None if (parent := _key(parent_member, parent_round)) is None else _wholes(*parent),
        decision=_checked(DICT, json.loads(how), "decision"),
    )
    return Decision(
        assignment,
        known=_checked(WHOLE, known["known"], "known"),
        training=tuple(_wholes(m, r) for m, r in known["training"]),
        seconds=_checked(REAL.or_none(), seconds, "seconds"),
        time=_checked(REAL, when, "time"),
        explored=seconds is not None,
    )


def duration(row: Row) -> tuple[int, int, float]:
    """Read member, round and seconds from a row; raise HistoryError if one is invalid."""
    member, round_, seconds = row
    return *_wholes(member, round_), _checked(REAL, seconds, "seconds")


def event(row: Row) -> Event:
    """Read an event from one row; raise HistoryError, or an error of its JSON, if it is invalid."""
    id_, when, kind, member, round_, text, data = row
    kind, text = _checked(STRING, kind, "kind"), _checked(STRING, text, "text")
    member, round_ = (_checked(WHOLE.or_none(), one, "member or round") for one in (member, round_))
    data, when = _checked(DICT, json.loads(data), "data"), _checked(REAL, when, "time")
    return Event(kind, text, member, round_, data, when, id_)


def _key(member: Any, round_: Any) -> Key | None:
    return None if member is None and round_ is None else (member, round_)


def _wholes(member: Any, round_: Any) -> Key:
    return _checked(WHOLE, member, "member"), _checked(WHOLE, round_, "round")


def _checked(rule: Rule, value: Any, name: str) -> Any:
    """Return a value of a row, if it keeps the rule."""
    rule.check(name, value, HistoryError)
    return value
