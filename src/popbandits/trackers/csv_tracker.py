"""Observations in CSV files, a row each, readable while the run goes on."""

import csv
import io
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popbandits.errors import HistoryError
from popbandits.history.frame import COMMON_COLUMNS, cell, table_row
from popbandits.population import Population
from popbandits.storage.disk import absolute_path, write_whole
from popbandits.trackers.tracker import Entry, Tracker

FILE = "observations.csv"


class CSVTracker(Tracker):
    """Write a row for each observation to a CSV file; the columns are those of `popbandits export`, but for "winning".

    A metric that appears later adds a column: the file is then written anew.

    Args:
        path: Path of the file. None (default) is `observations.csv` in the run's folder.
        per_member: Whether each member has a file, with its number before the ending. Default False.
    """

    def __init__(self, path: str | Path | None = None, per_member: bool = False):
        super().__init__(per_member)
        self.path = None if path is None else absolute_path(path, "path")

    def begin(self, population: Population, directory: Path) -> Mapping[int, int]:
        """Read what the files have, and cut off a row that a kill left incomplete."""
        self._file = self.path or directory / FILE
        self._file.parent.mkdir(parents=True, exist_ok=True)
        names = [*COMMON_COLUMNS, *(f"config.{name}" for name in population.space.names)]
        self._first = [_on_a_line(name) for name in names if name != "winning"]
        self._columns: dict[Path, list[str]] = {}
        written: Counter[int] = Counter()
        for path in {self._path_of(member) for member in range(population.size)}:
            for row in self._read(path):
                member, round_ = int(row["member"]), int(row["round"])
                known = population.history.find((member, round_))
                if known is None or (not known.failed and cell(known.score) != row["score"]):
                    raise HistoryError(
                        f"{path} holds another run: member {member}, round {round_} has score {row['score']} there; "
                        "give another path"
                    )
                written[member] += 1
            if path in self._columns:
                os.truncate(path, len(_whole_lines(path)))
        return written

    def write(self, entry: Entry) -> None:
        """Append its row."""
        observation = entry.observation
        row = table_row(observation, self._space, self._history.stage(observation.parent), False)
        del row["winning"]
        values = {_on_a_line(name): _on_a_line(value) for name, value in row.items() if not _is_missing(name, value)}
        path = self._path_of(entry.member)
        known = self._columns.get(path, self._first)
        columns = [*known, *sorted(values.keys() - set(known))]
        if self._columns.get(path) == columns:
            with path.open("ab") as file:
                file.write(_lines([values], columns))
            return
        header = dict(zip(columns, columns, strict=True))
        write_whole(path, _lines([header, *self._read(path), values], columns))  # Readers see the old one or the new.
        self._columns[path] = columns

    def _path_of(self, member: int) -> Path:
        return self._file.with_stem(f"{self._file.stem}-{member}") if self.per_member else self._file

    def _read(self, path: Path) -> list[dict[str, Any]]:
        """Read the complete rows of a file, if it is there."""
        if not path.exists() or not path.stat().st_size:
            return []
        reader = csv.DictReader(io.StringIO(_whole_lines(path).decode("utf-8"), newline=""))
        columns = list(reader.fieldnames or [])
        if not {"member", "round", "score"} <= set(columns):
            raise HistoryError(f"{path} must hold a run's observations or be new, got columns {columns}")
        self._columns[path] = columns
        return list(reader)


def _whole_lines(path: Path) -> bytes:
    """Return a file's content without a last line that a kill left incomplete; no value holds a line break."""
    content = path.read_bytes()
    return content[: content.rfind(b"\n") + 1]


def _on_a_line(value: Any) -> str:
    return cell(value).replace("\r", "\\r").replace("\n", "\\n")


def _is_missing(name: str, value: Any) -> bool:
    """Tell whether a cell stays empty; a hyperparameter whose label is None is not missing."""
    return (value is None and name in COMMON_COLUMNS) or value != value


def _lines(rows: list[dict[str, Any]], columns: list[str]) -> bytes:
    out = io.StringIO(newline="")
    csv.DictWriter(out, columns, lineterminator="\n", restval="").writerows(rows)
    return out.getvalue().encode("utf-8")
