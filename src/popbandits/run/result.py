"""The result of a run."""

from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from popbandits.errors import HistoryError
from popbandits.history import Config, History, Observation
from popbandits.history.frame import history_html
from popbandits.selection.choice import Choice
from popbandits.storage.checkpoints import CHECKPOINTS, Checkpoints
from popbandits.storage.disk import absolute_path
from popbandits.storage.handed_over import read_handed_over

if TYPE_CHECKING:
    import pandas


class Result:
    """The result of a run so far, read from its folder: `Result("runs/x")` works for any run.

    Args:
        directory: Folder of the run.
    """

    def __init__(self, directory: str | Path):
        self.directory = absolute_path(directory)

    @cached_property
    def history(self) -> History:
        """The history, with every observation."""
        return History.load(self.directory)

    @property
    def done(self) -> bool:
        """True if every member has finished its last round."""
        size, rounds = self.history.size, self.history.rounds
        return size is not None and rounds is not None and len(self.history) >= size * rounds

    @property
    def best(self) -> Observation:
        """The completed observation with the best score ever; if scores are noisy, partly by luck: see `choice`."""
        best = self.history.best
        if best is None:
            raise HistoryError(f"no interval of {self.directory} has completed, so there is no best one")
        return best

    @cached_property
    def choice(self) -> Choice:
        """The checkpoint to hand over, its reason and the candidates: by evaluations, if there were any, or by scores.

        The best of many noisy scores is lucky. So candidates are the best one ever, the last one of the best member,
        and the control's last one, if there is a control.
        """
        # Of the history that was read, if it was: the run may have gone on since, and schedules are read from that one.
        choice = read_handed_over(self.directory, self.__dict__.get("history"))
        if choice is None:
            raise HistoryError(f"no interval of {self.directory} has completed, so there is nothing to hand over")
        return choice

    @property
    def schedule(self) -> list[Config]:
        """The configurations along the lineage of `choice`, one per interval: training with them in turn replays it."""
        return self.history.schedule(self.choice.observation)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a table with a row for each observation; `winning` marks the lineage of `choice`."""
        return self.history.to_pandas(self.choice.observation if self.history.best is not None else None)

    @property
    def checkpoint(self) -> Path:
        """Folder of the checkpoint that is handed over, by `choice`, for an agent's `load`."""
        return Checkpoints(self.directory / CHECKPOINTS).path(self.choice.observation.key)

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: what is handed over, and the end of its schedule."""
        if self.history.best is None:
            return self.history._repr_html_()
        lineage = self.history.lineage(self.choice.observation)
        told = f"<p>Handed over: {escape(str(self.choice))}</p>"
        return told + history_html(self.history.space, lineage, repr(self.history), "The lineage handed over")

    def __repr__(self) -> str:
        return f"Result({str(self.directory)!r}: {self.history!r})"
