"""Queries of status and the live page: counts, numbers as arrays, and texts, without reading whole records."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal

import numpy as np

from popbandits.basics.records import Event, Observation
from popbandits.errors import HistoryError
from popbandits.space.storage import unpack, unpack_all
from popbandits.storage.store import Store

Numbers = np.ndarray[Any, Any]
"""Structured array with a row for each observation or decision; NaN for NULL."""
Source = Literal["observation", "decision"]
KEY_COLUMNS = ("id", "member", "round", "parent_member", "parent_round")
COLUMNS: dict[Source, tuple[str, ...]] = {
    "observation": (
        *(*KEY_COLUMNS, "score_before", "score", "steps", "seconds"),
        *("status = 'completed' AS completed", "status = 'lost' AS lost"),
    ),
    "decision": (*KEY_COLUMNS, "seconds", "time"),
}
EVALUATED = "evaluated"
"""Kind of the event that records the evaluation of a run's candidates."""
MAX_QUERY_VALUES = 500
"""Maximum number of values in one query."""


def counts(store: Store) -> tuple[int, int, int]:
    """Count the observations, the failed ones, and the members; raise HistoryError if an observation is missing."""
    [(rows, failed, members)] = store.ask(
        "SELECT COUNT(*), COUNT(CASE WHEN status != 'completed' THEN 1 END), COUNT(DISTINCT member) FROM observation"
    )
    if rows != len(store):
        raise HistoryError(f"observations are numbered without gaps, got {rows} up to the number {len(store)}")
    return rows, failed, members


def last_scores(store: Store) -> list[float]:
    """Return the score of the last completed interval of each member that has one."""
    rows = store.ask(
        "SELECT (SELECT score FROM observation AS own WHERE own.member = one.member "
        "AND status = 'completed' ORDER BY round DESC LIMIT 1) AS score "
        "FROM (SELECT DISTINCT member FROM observation) AS one WHERE score IS NOT NULL"
    )
    return [float(score) for (score,) in rows]


def rounds_done(store: Store) -> int:
    """Count the rounds that the member furthest ahead has done; a damaged record may name any."""
    found = store.ask("SELECT COUNT(DISTINCT round) FROM observation GROUP BY member ORDER BY 1 DESC LIMIT 1")
    return int(found[0][0]) if found else 0


def members_seen(store: Store) -> set[Any]:
    """Return the members that have an observation."""
    return {member for (member,) in store.ask("SELECT DISTINCT member FROM observation")}


def lost_checkpoints(store: Store) -> set[Any]:
    """Return member and round of the checkpoints that an observation reports as lost."""
    return set(store.ask("SELECT parent_member, parent_round FROM observation WHERE status = 'lost'"))


def last_completed(store: Store, member: int) -> Observation | None:
    """Return the last completed observation of a member, or None."""
    query = "SELECT id FROM observation WHERE member = ? AND status = 'completed' ORDER BY round DESC LIMIT 1"
    found = store.ask(query, [member])
    return store[found[0][0] - 1] if found else None


def last_turn(store: Store) -> str | None:
    """Return the run's last state, "started", "resumed", "stopped" or "finished"; None if it is not recorded."""
    turns = (
        "SELECT kind FROM event WHERE kind IN ('started', 'resumed', 'stopped', 'finished') ORDER BY id DESC LIMIT 1"
    )
    found = store.ask(turns)
    return str(found[0][0]) if found else None


def last_evaluation(store: Store) -> Event | None:
    """Return the record of the evaluation of a run's candidates; None if there was none since its last interval."""
    found = store.ask("SELECT id FROM event WHERE kind = ? ORDER BY id DESC LIMIT 1", [EVALUATED])
    event = next(store.events(found[0][0] - 1)) if found else None
    return event if event is not None and event.data.get("observations") == len(store) else None


def numbers(store: Store, source: Source, after: int = 0) -> Numbers:
    """Return the numbers of the observations or decisions after the id `after`, in order."""
    query = f"SELECT {', '.join(COLUMNS[source])} FROM {source} WHERE id > ? ORDER BY id"
    return np.array(store.ask(query, [after]), no_numbers(source).dtype)


def no_numbers(source: Source) -> Numbers:
    """Return an empty array with the columns of observations or decisions."""
    return np.empty(0, [(column.split()[-1], np.float64) for column in COLUMNS[source]])


def configs(store: Store, source: Source, ids: Sequence[int]) -> dict[int, Any]:
    """Return the configurations of some rows, by id; raise HistoryError if one is not in the space."""
    rows = _by_id(store, "config", source, ids)
    with store.blamed():
        found = {id_: unpack(config) for id_, config in rows}
        store.space.encode([found[id_] for id_ in ids])  # Figures rely on this check.
        return found


def metrics(store: Store, after: int, end: int) -> list[dict[str, Any]]:
    """Return the metrics of the observations after the id `after`, up to the id `end`, in order."""
    rows = store.ask("SELECT metrics FROM observation WHERE id > ? AND id <= ? ORDER BY id", [after, end])
    return _metrics(store, [text for (text,) in rows])


def some_metrics(store: Store, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return the metrics of some observations."""
    return _metrics(store, [text for _, text in _by_id(store, "metrics", "observation", ids)])


def _by_id(store: Store, column: str, source: Source, ids: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the id and a column of some rows."""
    rows: list[tuple[Any, ...]] = []
    for some in (ids[i : i + MAX_QUERY_VALUES] for i in range(0, len(ids), MAX_QUERY_VALUES)):
        rows += store.ask(f"SELECT id, {column} FROM {source} WHERE id IN ({', '.join('?' * len(some))})", some)
    return rows


def _metrics(store: Store, texts: list[Any]) -> list[dict[str, Any]]:
    with store.blamed():
        found = unpack_all(texts, tuples=False)
        if not all(isinstance(one, dict) for one in found):
            raise HistoryError("metrics must be a dict, got others")
        return found


def fallbacks(store: Store, ids: Sequence[int]) -> dict[int, str]:
    """Map decision ids, from the first of `ids` on, to the reason why the explorer did not use its model."""
    query = "SELECT id, fallback FROM decision WHERE id >= ? AND fallback IS NOT NULL"
    return {id_: str(reason) for id_, reason in (store.ask(query, [min(ids)]) if ids else ())}


def latest_events(store: Store, after: int, most: int) -> list[Event]:
    """Return the last `most` events after the id `after`."""
    [(end,)] = store.ask("SELECT COALESCE(MAX(id), 0) FROM event")
    return list(islice(store.events(max(after, end - most)), most))


def failures(store: Store, member: int, since: int) -> dict[int, str]:
    """Map each failed round of a member, from `since` on, to its recorded text and traceback."""
    query = (
        "SELECT round, kind, text, json_extract(data, '$.traceback') FROM event "
        "WHERE member = ? AND round >= ? ORDER BY id"
    )
    rows = store.ask(query, [member, since])
    return {round_: "\n".join(filter(None, (f"{kind}: {text}", trace))) for round_, kind, text, trace in rows}
