"""Messages to the page of a run: everything at first, then what changed."""

import math
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from popbandits.basics.wording import duration, first_line, number, rounded
from popbandits.errors import HistoryError
from popbandits.reports.live.live_run import LiveRun
from popbandits.reports.live.updates import FIGURES, FigureUpdate, LineageUpdate, WarningsUpdate, curves
from popbandits.reports.run import describe_changes, describe_config, method_label, shorten
from popbandits.reports.status import State, rounds_done, state_of
from popbandits.storage import Store
from popbandits.storage.folders import Stamp, file_stamp
from popbandits.storage.lock import is_running
from popbandits.storage.queries import Numbers, Source, configs, fallbacks, latest_events
from popbandits.storage.store import reading

MEMBER_COLUMNS = ("member", "state", "round", "score", "change", "from", "hyperparameters")
"""Columns of the table of members."""
MAX_LOG_ENTRIES = 200
"""Maximum entries of the log."""
REREAD_SECONDS = 1.0
"""Seconds after a change of the file until it is read once more: SQLite writes before others can read."""
Message = dict[str, Any]


class News:
    """A run, and the version at which each part changed; shared by all pages of the run, thread-safe."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.version = 0
        self._run = LiveRun(directory)
        self._lock = threading.Lock()
        self._seen: tuple[Stamp, bool] | None = None
        self._reread_at = math.inf  # when to read once more what has not changed since
        self._error: str | None = None
        self._state: State = "stopped"
        self._begin()

    def _begin(self) -> None:
        """Reset for the first run, or another one, in the folder: earlier messages no longer hold."""
        self._begun = self.version
        self._file = self._run.file
        self._rows: dict[int, tuple[int, list[Any]]] = {}  # member -> the version it changed at, and its row
        self._texts: dict[int, tuple[tuple[Source, int], str]] = {}  # member -> row of its config, and that as text
        self._log: list[tuple[int, Message]] = []
        self._events, self._decisions = 0, 0  # numbers of them in the log
        self._lineage = LineageUpdate()
        self._figures = [FigureUpdate(name) for name in FIGURES]
        self._warnings = WarningsUpdate()
        self._updates = [*self._figures, self._warnings]

    def since(self, version: int | None) -> Message | None:
        """Return the news for a page at a version, or at None if it has nothing; None if there is no news."""
        with self._lock:
            self._look(draw=version == self.version)  # Figures are slower, and wait until all else is sent.
            if version == self.version:
                return None
            if self._error is not None:
                return {"version": self.version, "wrong": self._error}
            run = self._run
            known = -1 if version is None or not self._begun <= version <= self.version else version
            return {
                "version": self.version,
                "whole": known < 0,
                "about": f"{method_label(run.about, run.space)} · seed {shorten(str(run.about.get('seed', '–')), 40)}",
                "facts": self._facts,
                "state": self._state,
                "told": self._told,
                "warned": self._warnings.texts,
                "members": [row for changed, row in self._rows.values() if changed > known],
                "log": [entry for at, entry in self._log if at > known],
                "more": any(one.is_due for one in [self._lineage, *self._updates]),
                "figures": {one.name: one.since(known) for one in self._figures if one.made > known},
            }

    def curves(self, metric: str) -> Message | None:
        """Return the learning curves with a metric, as of now; None if no interval reported it, or the run is gone."""
        with self._lock:
            if self._seen is None:
                self._look(draw=False)
                self._look(draw=True)  # with the winning lineage
            run = self._run
            if metric not in run.metrics or self._error is not None:
                return None
            try:
                return curves(run, metric)
            except (HistoryError, OSError):  # Another run uses the folder now, or none.
                return None

    def _look(self, draw: bool) -> None:
        """Update a figure or the warnings, if due; else read what is new, with the winning lineage if that is due."""
        choose = draw and self._lineage.is_due  # Before the figures, which show it.
        due = next((one for one in self._updates if one.is_due), None) if draw and not choose else None
        if due is not None:  # Before anything is read: a fast run always has news.
            self.version += 1
            due.make(self._run, self.version)
            return
        active = is_running(self.directory)  # Before the file is read: a run that ends meanwhile was not killed.
        now = file_stamp(self.directory), active
        if now == self._seen and not self._lags() and not choose:
            return
        self._seen, self._reread_at = now, time.monotonic() + REREAD_SECONDS
        self.version += 1
        try:
            if choose:
                self._lineage.make(self._run, self.version)
            else:
                self._run.refresh(choose=False)
            if self._run.file != self._file:
                self._begin()
            with reading(self.directory) as store:
                rounds, members = self._run.about.get("rounds"), self._run.size
                complete = rounds is not None and len(self._run) >= members * rounds > 0
                self._state = state_of(store, active, complete)
                self._update_rows(store)
                self._update_log(store)
            self._error = None
        except (HistoryError, OSError) as error:  # It was removed, or is incomplete.
            self._error = str(error)
        ready = self._error is None and len(self._run) > 0
        self._lineage.stale = ready and not choose
        for one in self._updates:
            one.stale = ready

    def _lags(self) -> bool:
        """Tell whether the file has observations that were not yet readable at its last change."""
        if time.monotonic() < self._reread_at:
            return False
        self._reread_at = math.inf
        try:
            with reading(self.directory) as store:
                return len(store) != len(self._run)
        except (HistoryError, OSError):
            return self._error is None

    @property
    def _facts(self) -> dict[str, str]:
        run = self._run
        asking = run.decided["seconds"][-1000:]
        asking = asking[np.isfinite(asking)]
        return {
            "best score": number(run.best.score) if run.best is not None else "–",
            "state": self._state,
            "rounds": self._rounds,
            "mean": number(run.mean),
            "observations": f"{len(run):,}",
            "failed": f"{len(run) - run.completed:,}",
            "deciding": duration(float(np.median(asking))) if len(asking) else "–",
        }

    @property
    def _rounds(self) -> str:
        """Number of intervals by number of members, rounded down."""
        run = self._run
        return rounds_done(len(run) // max(1, run.size), run.about.get("rounds"))

    @property
    def _told(self) -> str:
        """A sentence for screen readers, which changes with the round, the state and the best score."""
        best = self._run.best
        told = "nothing completed yet" if best is None else f"best score {number(best.score)}"
        return f"{self._state}: round {self._rounds}, {told}"

    def _update_rows(self, store: Store) -> None:
        """Update the row of each member that changed."""
        run = self._run
        where: dict[int, tuple[Source, int]] = {}
        for member in range(run.size):
            done, asked = int(run.last[member]), run.asked.get(member)
            finished = -1 if done < 0 else run.key(done)[1]
            if asked is not None and run.decided["round"][asked] > finished and self._state != "finished":
                where[member] = "decision", asked
            elif done >= 0:
                where[member] = "observation", done
        self._read(store, where)
        for member, (table, index) in where.items():
            row = self._row(member, table == "decision", index)
            if member not in self._rows or self._rows[member][1] != row:
                self._rows[member] = self.version, row

    def _read(self, store: Store, where: dict[int, tuple[Source, int]]) -> None:
        """Read the configurations of members that are not known yet, as text."""
        new = {m: row for m, row in where.items() if m not in self._texts or self._texts[m][0] != row}
        tables: dict[Source, Numbers] = {"decision": self._run.decided, "observation": self._run.numbers}
        for table, rows in tables.items():
            ids = {int(rows["id"][index]): member for member, (of, index) in new.items() if of == table}
            for id_, config in configs(store, table, list(ids)).items():
                self._texts[ids[id_]] = new[ids[id_]], describe_config(store.space, config)

    def _row(self, member: int, in_training: bool, index: int) -> list[Any]:
        run = self._run
        last = int(run.last[member])
        source = run.decided[index] if in_training else run.numbers[index]
        parent = run.parent(source)
        if in_training:
            doing = "training" if self._state == "running" else "interrupted"
        else:
            failed = not run.numbers["completed"][index]
            ended = self._state == "finished" or run.about.get("rounds") == run.numbers["round"][index] + 1
            doing = "failed" if failed else "done" if ended else "waiting"
        score, change = (float(run.numbers["score"][last]), run.change(last)) if last >= 0 else (math.nan, math.nan)
        came = "" if parent is None else "itself" if parent[0] == member else f"member {parent[0]}"
        numbers = int(source["round"]), rounded(score), rounded(change)
        return [member, doing, *numbers, came, self._texts[member][1]]

    def _update_log(self, store: Store) -> None:
        """Add events and explored configurations to the log."""
        run = self._run
        entries = []
        for e in latest_events(store, self._events, MAX_LOG_ENTRIES):
            entries.append(_entry(e.time, e.kind, e.member, e.round, shorten(first_line(e.text), 300)))
            self._events = e.id or self._events
        fresh = run.decided[self._decisions :]
        explored = fresh[np.isfinite(fresh["seconds"]) & (fresh["round"] > 0)][-MAX_LOG_ENTRIES:]
        ids = explored["id"].astype(int).tolist()
        chosen, reasons = configs(store, "decision", ids), fallbacks(store, ids)
        parents = [run.parent(row) for row in explored]
        sources = {key: int(run.indices[key[::-1]]) + 1 for key in parents if key is not None}
        theirs = configs(store, "observation", list(set(sources.values())))
        for id_, row, parent in zip(ids, explored, parents, strict=True):
            member = int(row["member"])
            copied = "" if parent is None or parent[0] == member else f"copied member {parent[0]} and "
            new = describe_config(store.space, chosen[id_])
            if parent is not None:
                new = describe_changes(store.space, theirs[sources[parent]], chosen[id_])
            text = f"{copied}tries {new}"
            reason = reasons.get(id_)
            text += "" if reason is None else f" (at random: {first_line(reason)})"
            entries.append(_entry(float(row["time"]), "explored", member, int(row["round"]), text))
        self._decisions = len(run.decided)
        entries.sort(key=lambda entry: entry["time"])
        self._log = [*self._log, *((self.version, entry) for entry in entries)][-MAX_LOG_ENTRIES:]


def _entry(when: float, kind: str, member: int | None, round_: int | None, text: str) -> Message:
    return {"time": when, "kind": kind, "member": member, "round": round_, "text": text}
