"""The warnings of the live page."""

from itertools import islice

from popbandits.advice import MAX_LINEAGE, count_recent, judge
from popbandits.errors import HistoryError
from popbandits.records import Key
from popbandits.reports.live.follow import LiveRun
from popbandits.reports.live.pacing import PacedUpdate
from popbandits.reports.status import selection_name
from popbandits.storage.store import reading


class Warnings(PacedUpdate):
    """The current warnings about a run; those that no longer hold are dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def _make(self, run: LiveRun, version: int) -> None:
        try:
            self.texts = _warnings(run)
        except (HistoryError, OSError):  # The follower of the run reports errors of its file.
            self.texts = []


def _warnings(run: LiveRun) -> list[str]:
    size = run.indices.shape[1]
    with reading(run.directory) as store:

        def back(key: Key) -> list[float]:
            return [score for *_, score in reversed(store.lineage(key, MAX_LINEAGE))]

        if not run.is_in(store):  # Another run uses the folder now.
            return []
        after = max(0, len(run) - count_recent(len(run), size))
        recent = list(islice(store.observations(after), len(run) - after))
        found = judge(recent, len(run), size, run.space, run.sign, back, selection_name(run.about))
    return [one.text for one in found]
