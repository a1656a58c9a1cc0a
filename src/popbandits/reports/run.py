"""What a report needs of a run, read from its file once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from popbandits.errors import HistoryError
from popbandits.history import History, Key, Observation, Rows
from popbandits.history.frame import text
from popbandits.records import merit
from popbandits.reports.status import Status, method_name, status
from popbandits.space import Points, Space
from popbandits.storage.schema import FILE
from popbandits.storage.store import reading
from popbandits.typing import BoolArray, FloatArray, IntArray
from popbandits.wording import printable, setting

LABEL = 60
"""Characters of a label, a name or a value that figures show."""

CONFIG = 400
"""Characters of a configuration that a figure shows under the pointer."""

CELLS = 10_000_000
"""A table of rounds and members may have as many cells, whatever the run."""

LINES = 1_000
"""A text that may be longer than this may have several lines."""

TRACEBACK = 6_000
"""Characters of a traceback that a report shows."""


@dataclass(frozen=True)
class Mishap:
    """An interval that failed, and what is known of why."""

    member: int
    round: int
    kind: str
    text: str
    traceback: str


@dataclass(frozen=True)
class Intervals:
    """Intervals that trained, as figures draw them."""

    points: Points
    member: IntArray
    round: IntArray
    change: FloatArray
    """`Observation.change` of each; NaN where it was not measured."""


class Drawn(Protocol):
    """What learning curves and schedules are drawn from: a run that was read whole, or one that is followed."""

    @property
    def space(self) -> Space:
        """What could be tried."""

    @property
    def sign(self) -> float:
        """+1 where more is better, -1 where less is."""

    @property
    def scores(self) -> FloatArray:
        """(rounds, members) as they were told; NaN where there is none."""

    @property
    def best_by_round(self) -> FloatArray:
        """(rounds,) the best member's score in each round; NaN where nobody completed it."""

    @property
    def horizon(self) -> int:
        """The last round of an axis."""

    @property
    def lineage(self) -> list[tuple[int, int, float]]:
        """Member, round and score along the lineage that ends with the best score, the first ancestor first."""

    @property
    def winning(self) -> frozenset[Key]:
        """The intervals of that lineage."""

    @property
    def intervals(self) -> Intervals:
        """Intervals that trained, as arrays; of a long run that is followed, a sample."""

    @property
    def trained(self) -> int:
        """How many intervals trained, in the sample or not."""

    def described(self, key: Key) -> str | None:
        """The configuration of an interval on a line, if it is to be shown with its point."""


@dataclass(frozen=True)
class Run:
    """A run, finished or not."""

    directory: Path
    about: Mapping[str, Any]
    status: Status
    history: History
    deciding: Mapping[Key, float]
    """Seconds that exploring took, by the interval explored for."""
    said: Mapping[Key, Mishap]
    """What was put on record when an interval failed."""

    @staticmethod
    def read(directory: str | Path) -> "Run":
        """The run in this folder, as it stands now."""
        with reading(directory) as store:
            about, deciding = store.about, store.deciding()
            said = {
                (event.member, event.round): Mishap(
                    event.member,
                    event.round,
                    event.kind,
                    shortened(event.text, TRACEBACK),
                    shortened(str(event.data.get("traceback", "")), TRACEBACK),
                )
                for event in store.events()
                if event.member is not None and event.round is not None
            }
        return Run(Path(directory), about, status(directory), History.load(directory), deciding, said)

    @property
    def name(self) -> str:
        """What to call it: its folder, and if that is but a number (a seed, say) the one above as well."""
        folder = self.directory if self.directory.name else self.directory.resolve()
        name = f"{folder.parent.name}/{folder.name}" if folder.name.isdecimal() else folder.name or str(folder)
        return shortened(name.lstrip("/"), LABEL)

    @property
    def space(self) -> Space:
        """What could be tried."""
        return self.history.space

    @property
    def sign(self) -> float:
        """+1 where more is better, -1 where less is."""
        return self.history.sign

    @property
    def method(self) -> str:
        """What the method is called, or what the agent is, if nothing was tuned."""
        return method_said(self.about, self.space)

    @cached_property
    def rows(self) -> Rows:
        """Every interval that trained, as the models see it, by round and member: with its change per usual budget."""
        return self.history.recent()

    @cached_property
    def intervals(self) -> Intervals:
        """Every interval that trained, by round and member."""
        rows = self.rows
        change = self.scores[rows.round, rows.member] - self.sign * rows.before
        return Intervals(rows.points, rows.member, rows.round, change)

    @cached_property
    def measured(self) -> BoolArray:
        """Of the rows, those whose change was measured, not guessed."""
        return np.isfinite(self.rows.change) & ~self.rows.guessed

    @property
    def trained(self) -> int:
        """How many intervals trained."""
        return len(self.rows)

    @cached_property
    def lineage(self) -> list[tuple[int, int, float]]:
        """Member, round and score along the lineage that ends with the best score, the first ancestor first."""
        return [(*step.key, step.score) for step in self.history.lineage()]

    @cached_property
    def winning(self) -> frozenset[Key]:
        """The lineage that ends with the best score."""
        return frozenset((member, round_) for member, round_, _ in self.lineage)

    @property
    def horizon(self) -> int:
        """The last round of an axis."""
        return len(self.scores) - 1

    @cached_property
    def scores(self) -> FloatArray:
        """(rounds, members) as they were told; NaN where there is none."""
        member, round_ = self.history.intervals()
        shape = round_.max(initial=-1) + 1, member.max(initial=-1) + 1
        require_dense(shape, len(member), self.directory)
        table = np.full(shape, np.nan)
        table[round_, member] = self.sign * self.history.scores(np.arange(len(member)))
        return table

    @cached_property
    def best_by_round(self) -> FloatArray:
        """(rounds,) the best member's score in each round; NaN where nobody completed it."""
        return best_of_rounds(self.scores, self.sign)

    @property
    def final(self) -> Observation | None:
        """The member that is best in the end, by the last round that each completed."""
        last = map(self.history.last_completed, range(self.scores.shape[1]))
        return max((o for o in last if o is not None), key=lambda o: merit(o, self.sign), default=None)

    @cached_property
    def explored(self) -> frozenset[Key]:
        """For whom a configuration was chosen, the first ones apart."""
        if self.deciding:
            return frozenset(key for key in self.deciding if key[1] > 0)
        found, configs = set(), dict[int, Any]()
        for o in self.history:
            if o.round > 0 and (o.decision or o.config != configs[o.member]):
                found.add(o.key)
            configs[o.member] = o.config
        return frozenset(found)

    @property
    def mishaps(self) -> Iterator[Mishap]:
        """The intervals that failed, in order."""
        for o in self.history:
            if o.failed:
                yield self.said.get(o.key) or Mishap(o.member, o.round, o.status, "it was told as NaN", "")

    def described(self, key: Key) -> str:
        """The configuration of an interval, on a line."""
        observation = self.history.find(key)
        assert observation is not None, f"{key} is not in {self.directory}"
        return described(self.space, observation.config)


def require_dense(shape: tuple[int, int], observations: int, directory: Path) -> None:
    """Raise HistoryError where a table of rounds and members would be far larger than what is known of the run."""
    if (cells := int(shape[0]) * int(shape[1])) > max(CELLS, 100 * observations):
        raise HistoryError(
            f"{directory / FILE} is damaged: {observations:,} observations cannot be drawn as "
            f"{shape[0]:,} rounds of {shape[1]:,} members, {cells:,} in all"
        )


def method_said(about: Mapping[str, Any], space: Space) -> str:
    """What the method of a run is called, in a length that can be shown."""
    return shortened(method_name(about, space) or "method not on record", LABEL)


def best_of_rounds(scores: FloatArray, sign: float) -> FloatArray:
    """The best of each row; NaN where all are."""
    turned = np.where(np.isnan(scores), -np.inf, sign * scores).max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(turned), sign * turned, np.nan)


def described(space: Space, config: Mapping[str, Any]) -> str:
    """A configuration on a line, of a length that can be shown.

    >>> described(Space({"lr": (0.0, 1.0), "act": ["relu", None]}), {"lr": 0.12345, "act": None})
    'lr 0.123 · act None'
    """
    return shortened(" · ".join(f"{name} {setting(value)}" for name, value in space.flatten(config).items()), CONFIG)


def shortened(given: str, length: int) -> str:
    """The text, or its beginning and end with a note of what is left out; a name or a line of it is on one line.

    >>> shortened("abcdefghij", 10), shortened("label " + 100 * "x", 12), shortened("two\\nlines", 20)
    ('abcdefghij', 'label xxxxx…', 'two lines')
    """
    if length < LINES:
        # Vega's expressions, which hold names of labels, know only one kind of line end in a string: none.
        given = printable(given[: length + 1])
    if len(given) <= length:
        return given
    if length < LINES:
        return f"{given[: length - 1]}…"
    half = length // 2
    return f"{given[:half]}\n… {len(given) - 2 * half:,} characters left out …\n{given[-half:]}"


def label_names(labels: tuple[Any, ...]) -> list[str]:
    """Labels as text of a length that can be shown, each different.

    >>> label_names(("crop", None, 3, "3"))
    ['crop', 'None', '3', '3 (4)']
    """
    names: list[str] = []
    for number, label in enumerate(labels, 1):
        name = shortened(text(label), LABEL) or "(empty)"
        names.append(f"{name} ({number})" if name in names else name)
    return names
