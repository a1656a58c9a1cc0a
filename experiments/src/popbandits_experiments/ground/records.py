"""Results of the benchmark as JSON lines: a line for each population, a file for each (task, space, rounds, members).

One process writes at a time, and lines are only appended, so a killed sitting loses only the line in progress.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from popbandits.errors import ArgumentError, HistoryError
from popbandits_experiments import RESULTS as STORED
from popbandits_experiments.json_lines import append_lines

RESULTS = STORED / "real"
TENTHS = 10
ADDED = ("kept", "kept_error", "intervals")
"""Fields that older records lack."""

Space = Literal["wide", "shifted", "narrow"]
Group = Literal["device", "envpool"]
Split = Literal["development", "confirmation"]
Score = Literal["kept", "final"]
SPACES: tuple[Space, ...] = get_args(Space)
GROUPS: tuple[Group, ...] = get_args(Group)
SPLITS: tuple[Split, ...] = get_args(Split)
SCORES: tuple[Score, ...] = get_args(Score)


class Key(NamedTuple):
    """Identity of one population-run."""

    task: str
    space: Space
    rounds: int
    method: str
    seed: int
    population: int = 4


@dataclass(frozen=True)
class Record:
    """Outcome of one population-run. A population whose members all failed has the task's random score."""

    task: str
    space: Space
    rounds: int
    """Number of intervals that the budget is divided into."""
    steps: int
    """Environment steps of one member over the whole run."""
    population: int
    """Members, or slots of a rival. The budget is population x rounds intervals, so it grows with the population."""
    method: str
    """Name in `ground/methods.py`, or "defaults": every member with the space's defaults, no tuning."""
    seed: int
    final: float
    """Mean return of fresh episodes by the member with the best last score; of a rival, by its incumbent."""
    final_error: float
    """Standard error of `final` over those episodes."""
    curve: tuple[float, ...]
    """Best last score after each tenth of the budget."""
    late_choices: int
    """New configurations chosen in the last third of the rounds."""
    late_on_bound: int
    """Those of them with any number within 1% of a bound, on the unit scale."""
    late_low_lr: int
    """Those of them with a learning rate in the lowest tenth of its range, on its own scale."""
    group: Group
    split: Split
    device: str
    """Hardware, in words."""
    seconds: float
    """Device time of the run; its share where many trained at once."""
    kept: float | None = None
    """Mean return of the same episodes by the checkpoint that `tune` hands over: that of the best score ever.

    None in records from before it was tested.
    """
    kept_error: float | None = None
    """Standard error of `kept`."""
    intervals: int | None = None
    """Intervals trained, at most population x rounds; None in older records, which trained that many."""

    def __post_init__(self) -> None:
        for name in ("task", "method", "device"):
            self._require(name, isinstance(getattr(self, name), str) and getattr(self, name), "a text")
        self._require("task", not set(self.task) & set("/\\"), "usable in a file name")
        for name, known in (("space", SPACES), ("group", GROUPS), ("split", SPLITS)):
            self._require(name, getattr(self, name) in known, f"one of {', '.join(known)}")
        for name, least in (("rounds", 1), ("steps", 1), ("population", 1), ("seed", 0), ("late_choices", 0)):
            value = getattr(self, name)
            self._require(name, type(value) is int and value >= least, f"a whole number of at least {least}")
        for name in ("late_on_bound", "late_low_lr"):
            value = getattr(self, name)
            fits = type(value) is int and 0 <= value <= self.late_choices
            self._require(name, fits, f"a whole number of at most late_choices, {self.late_choices}")
        self._require("final", _finite(self.final), "a finite number")
        for name in ("final_error", "seconds"):
            value = getattr(self, name)
            self._require(name, _finite(value) and value >= 0, "a finite number of at least 0")
        self._require("kept", self.kept is None or _finite(self.kept), "a finite number")
        error = self.kept_error
        self._require("kept_error", error is None or (_finite(error) and error >= 0), "a finite number of at least 0")
        most = self.population * self.rounds
        fits = self.intervals is None or (type(self.intervals) is int and 0 < self.intervals <= most)
        self._require("intervals", fits, f"a whole number from 1 to population x rounds, {most}")
        fits = len(self.curve) == TENTHS and all(map(_finite, self.curve))
        self._require("curve", fits, f"{TENTHS} finite numbers")

    def _require(self, name: str, holds: Any, rule: str) -> None:
        if not holds:
            raise HistoryError(f"{name} must be {rule}, got {getattr(self, name)!r}")

    @property
    def key(self) -> Key:
        """Identity of the run: no two records share one."""
        return Key(self.task, self.space, self.rounds, self.method, self.seed, self.population)


def append(records: Iterable[Record], folder: Path = RESULTS) -> None:
    """Append records to their files. An incomplete last line of a killed sitting is dropped."""
    by_file: dict[Path, list[Record]] = {}
    for record in records:
        by_file.setdefault(_path(record.key, folder), []).append(record)
    for path, new in by_file.items():
        stored = _stored(path, torn_is_dropped=True)
        _check_comparable([*stored, *enumerate(new, len(stored) + 1)], path)
    for path, new in by_file.items():
        append_lines(path, (_row(record) for record in new))


def read(folder: Path = RESULTS) -> list[Record]:
    """Return every record of a folder, file by file. Damaged, incomplete and duplicate lines are errors."""
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise HistoryError(f"no results in {folder}: it has no .jsonl file")
    found = []
    for path in paths:
        stored = _stored(path)
        _check_comparable(stored, path)
        found += [record for _, record in stored]
    return found


def done(keys: Iterable[Key], folder: Path = RESULTS) -> set[Key]:
    """Return the keys whose records are stored; an incomplete last line does not count."""
    wanted = set(keys)
    paths = {_path(key, folder) for key in wanted}
    return wanted & {record.key for path in paths for _, record in _stored(path, torn_is_dropped=True)}


def _path(key: Key, folder: Path) -> Path:
    size = "" if key.population == Key._field_defaults["population"] else f"-{key.population}-members"
    return folder / f"{key.task}-{key.space}-{key.rounds}{size}.jsonl"


def _stored(path: Path, torn_is_dropped: bool = False) -> list[tuple[int, Record]]:
    """Return the records of a file with their line numbers; none if there is no file."""
    if not path.exists():
        return []
    *lines, torn = path.read_bytes().split(b"\n")
    if torn and not torn_is_dropped:
        raise HistoryError(
            f"{path}:{len(lines) + 1}: the last line has no end, its writer was killed; the next run of this "
            "seed drops it and writes it again"
        )
    return [(number, _parsed(line, path, number)) for number, line in enumerate(lines, 1)]


@cache  # A sitting reads what is stored again before every batch.
def _parsed(line: bytes, path: Path, number: int) -> Record:
    try:
        row: Any = json.loads(line)
        if not isinstance(row, dict):
            raise HistoryError(f"a line must be a JSON object, got {type(row).__name__}")
        expected = [field.name for field in fields(Record)]
        if missing := [name for name in expected if name not in row and name not in ADDED]:
            raise HistoryError(f"a record must have every field, missing: {', '.join(missing)}")
        if unknown := [name for name in row if name not in expected]:
            raise HistoryError(f"a record must have known fields only, got {', '.join(unknown)}")
        record = Record(**row | {"curve": tuple(row["curve"])})
    except (ValueError, TypeError) as error:  # JSON's, Unicode's and ours; a curve that is no list
        raise HistoryError(f"{path}:{number}: damaged line: {error}") from error
    if _path(record.key, path.parent) != path:
        raise HistoryError(f"{path}:{number}: a line of {_path(record.key, path.parent).name} is in the wrong file")
    return record


def _check_comparable(stored: Sequence[tuple[int, Record]], path: Path) -> None:
    """Raise an error if two records are of the same run, or of runs that cannot be compared."""
    seen: dict[Key, int] = {}
    for number, record in stored:
        if record.key in seen:
            raise HistoryError(
                f"a run must be stored once, got {_named(record.key)} on lines {seen[record.key]} and {number} "
                f"of {path}"
            )
        seen[record.key] = number
        first_number, first = stored[0]
        for name in ("steps", "population", "group"):
            if getattr(record, name) != getattr(first, name):
                raise HistoryError(
                    f"all runs of a file must have the same {name}, got {getattr(first, name)!r} on line "
                    f"{first_number} and {getattr(record, name)!r} on line {number} of {path}"
                )


def _named(key: Key) -> str:
    return ", ".join(f"{name} {value}" for name, value in key._asdict().items())


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _row(record: Record) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if value is not None}


def seed_range(text: str) -> range:
    """Return the seeds that an option names by the first and one past the last, as in 0-64."""
    try:
        first, last = map(int, text.split("-"))
    except ValueError:
        first, last = 0, 0
    if first >= last:
        raise ArgumentError(
            f"--seeds must be the first and one past the last, two rising whole numbers such as 0-64, got {text!r}"
        )
    return range(first, last)
