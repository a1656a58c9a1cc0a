"""The result of a run."""

from functools import cached_property
from pathlib import Path

from popbandits.errors import HistoryError
from popbandits.history import Config, History, Observation
from popbandits.storage.checkpoints import CHECKPOINTS, Checkpoints
from popbandits.storage.disk import absolute_path


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
        """The completed observation with the best score."""
        best = self.history.best
        if best is None:
            raise HistoryError(f"no interval of {self.directory} has completed, so there is no best one")
        return best

    @property
    def schedule(self) -> list[Config]:
        """The configurations along the winning lineage, one per interval: training with them in turn replays it."""
        return self.history.schedule(self.best)

    @property
    def checkpoint(self) -> Path:
        """Folder of the best observation's checkpoint, for an agent's `load`."""
        return Checkpoints(self.directory / CHECKPOINTS).path(self.best.key)

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        return self.history._repr_html_()

    def __repr__(self) -> str:
        return f"Result({str(self.directory)!r}: {self.history!r})"
