"""Data of one member for the page: its configuration, its intervals and its lineage."""

from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from popbandits.basics.records import Assignment, Key, Observation
from popbandits.basics.wording import setting
from popbandits.reports.export import finite
from popbandits.reports.run import MAX_LABEL_CHARS, MAX_TRACEBACK_CHARS, changed, describe_config, shorten
from popbandits.reports.status import state_of
from popbandits.storage import Store
from popbandits.storage.lock import is_running
from popbandits.storage.queries import failures
from popbandits.storage.store import reading

MAX_INTERVALS = 100
"""Maximum intervals shown of a member, the last ones."""
MAX_ANCESTORS = 10_000
"""Maximum intervals for which a lineage is followed back."""

Shown = dict[str, Any]


def member(directory: Path, number: int) -> Shown | None:
    """Return all that a page shows of a member; None if there is no such member."""
    with reading(directory) as store:
        store.begin()
        done, decided = store.latest(number, MAX_INTERVALS), store.last_decision(number)
        if decided is None and not done:
            return None
        rounds = [observation.round for observation in done]
        # Ray Tune may end a run before its last decisions are trained.
        finished = state_of(store, is_running(directory), complete=False) == "finished"
        asked = None if decided is None else decided.assignment
        training = asked is not None and asked.round not in rounds and not (finished and rounds)
        line: list[Assignment | Observation] = [*([asked] if asked is not None and training else []), *done]
        now, space = line[0], store.space
        values = space.applied(now.config, now.round)
        # Beside those of the parent, whose training goes on; at the same round, as schedules move both.
        parent = None if now.parent is None else store[store.index_of(now.parent)]
        differs = {} if parent is None else changed(space, space.applied(parent.config, now.round), values)
        said = failures(store, number, min(rounds)) if rounds else {}
        reason = asked.decision.get("fallback") if asked is not None and asked.round == now.round else None
        return {
            "member": number,
            "round": now.round,
            "training": training,
            "from": None if now.parent is None or now.parent[0] == number else now.parent[0],
            "fallback": None if reason is None else shorten(str(reason), 300),
            "config": [
                {
                    "name": shorten(name, MAX_LABEL_CHARS),
                    "value": setting(value, MAX_LABEL_CHARS),
                    "before": differs[name][0] if name in differs else None,
                }
                for name, value in space.flatten(values).items()
            ],
            "lineage": _lineage(store, now.key, now.parent),
            "intervals": [
                {
                    "round": o.round,
                    "status": o.status,
                    "score": finite(o.score),
                    "change": finite(o.change),
                    "from": o.parent,
                    "seconds": o.seconds,
                    "config": describe_config(space, space.applied(o.config, o.round)),
                    "said": shorten(said[o.round], MAX_TRACEBACK_CHARS) if o.failed and o.round in said else None,
                }
                for o in done
            ],
        }


def _lineage(store: Store, key: Key, parent: Key | None) -> list[list[int]]:
    """Return the lineage of an interval, itself first, as spans: member, first round and last round."""
    line = [] if parent is None else [key[:2] for key in reversed(store.lineage(parent, MAX_ANCESTORS))]
    groups = ((member, [round_ for _, round_ in steps]) for member, steps in groupby([key, *line], itemgetter(0)))
    return [[member, rounds[-1], rounds[0]] for member, rounds in groups]
