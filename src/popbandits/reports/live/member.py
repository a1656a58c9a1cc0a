"""What a page shows of one member: what it trains with, what became of it, and whom it descends from."""

from pathlib import Path
from typing import Any

from popbandits.history import Key, Store
from popbandits.reports.run import LABEL, TRACEBACK, described, shortened
from popbandits.reports.status import running, state_of
from popbandits.space.storage import unpack
from popbandits.wording import setting

INTERVALS = 100
"""Of a member that has trained for longer, the last ones are shown."""
ANCESTORS = 10_000
"""Intervals for which a lineage is followed back."""

DONE = (
    "SELECT round, config, parent_member, parent_round, status, score, score_before, seconds FROM observation "
    "WHERE member = ? ORDER BY round DESC LIMIT ?"
)
DECIDED = (
    "SELECT round, config, parent_member, parent_round, fallback FROM decision WHERE member = ? "
    "ORDER BY round DESC LIMIT 1"
)
PARENT = "SELECT parent_member, parent_round FROM observation WHERE member = ? AND round = ?"
SAID = (
    "SELECT round, kind, text, json_extract(data, '$.traceback') FROM event WHERE member = ? AND round >= ? ORDER BY id"
)
Shown = dict[str, Any]


def member(directory: Path, number: int) -> Shown | None:
    """All that a page shows of a member; None if there is no such member."""
    with Store.open(directory, readonly=True) as store:
        ask = store.connection.execute
        ask("BEGIN")
        kept = {name for (name,) in ask("SELECT name FROM sqlite_master")}  # Old runs kept no decisions and events.
        done = ask(DONE, [number, INTERVALS]).fetchall()
        decided: Any = ask(DECIDED, [number]).fetchone() if "decision" in kept else None
        if decided is None and not done:
            return None
        rounds = [row[0] for row in done]
        # Ray Tune may end a run before what was decided last.
        finished = state_of(store, running(directory), complete=False) == "finished"
        training = decided is not None and decided[0] not in rounds and not (finished and rounds)
        now, *earlier = ([decided] if training else []) + done
        values = store.space.flatten(unpack(now[1]))
        before = store.space.flatten(unpack(earlier[0][1])) if earlier else values
        said = failures(store, number, min(rounds)) if rounds and "event" in kept else {}
        reason = decided[4] if decided is not None and decided[0] == now[0] else None
        return {
            "member": number,
            "round": now[0],
            "training": training,
            "fallback": None if reason is None else shortened(reason, 300),
            "config": [
                {
                    "name": shortened(name, LABEL),
                    "value": setting(value, LABEL),
                    "before": None if before.get(name, value) == value else setting(before[name], LABEL),
                }
                for name, value in values.items()
            ],
            "lineage": _lineage(store, (number, now[0]), _key(*now[2:4])),
            "intervals": [
                {
                    "round": round_,
                    "status": status,
                    "score": score,
                    "change": None if score is None or was is None else score - was,
                    "from": None if from_member is None else [from_member, from_round],
                    "seconds": seconds,
                    "config": described(store.space, unpack(config)),
                    "said": shortened(said[round_], TRACEBACK) if status != "completed" and round_ in said else None,
                }
                for round_, config, from_member, from_round, status, score, was, seconds in done
            ],
        }


def failures(store: Store, number: int, since: int) -> dict[int, str]:
    """What was put on record of a member's rounds that failed, whole."""
    rows = store.connection.execute(SAID, [number, since])
    return {round_: "\n".join(filter(None, (f"{kind}: {text}", trace))) for round_, kind, text, trace in rows}


def _lineage(store: Store, key: Key, parent: Key | None) -> list[list[int]]:
    """Whom an interval descends from, itself first: a member, and the first and the last of its rounds, one by one."""
    spans = [[key[0], key[1], key[1]]]
    for _ in range(ANCESTORS):
        if parent is None:
            break
        if parent[0] == spans[-1][0]:
            spans[-1][1] = parent[1]
        else:
            spans.append([parent[0], parent[1], parent[1]])
        row = store.connection.execute(PARENT, parent).fetchone()
        parent = None if row is None else _key(*row)
    return spans


def _key(member: int | None, round_: int | None) -> Key | None:
    return None if member is None or round_ is None else (member, round_)
