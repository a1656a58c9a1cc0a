"""The data of a run that a report needs, read from its file once."""

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from popbandits.basics.arithmetic import difference, without_rounding
from popbandits.basics.records import merit
from popbandits.basics.typing import BoolArray, FloatArray
from popbandits.basics.wording import printable, setting
from popbandits.history import Event, History, Key, Observation, Rows
from popbandits.history.frame import text
from popbandits.reports.axes import MAX_INTERVALS_SEARCHED, metric_column, metric_names, on_table
from popbandits.reports.data import IntervalArrays, RunData
from popbandits.reports.stats import beside_others, usual_at
from popbandits.reports.status import Status, method_name, status
from popbandits.selection.choice import Choice
from popbandits.space import Space
from popbandits.storage.handed_over import handed_over
from popbandits.storage.queries import Numbers, numbers
from popbandits.storage.store import reading

MAX_LABEL_CHARS = 60
"""Maximum characters of a label, a name or a value in figures."""

MAX_CONFIG_CHARS = 400
"""Maximum characters of a configuration in a figure's tooltip."""

MIN_MULTILINE_CHARS = 1_000
"""Texts with a longer limit than this may have several lines."""

MAX_TRACEBACK_CHARS = 6_000
"""Maximum characters of a traceback in a report."""


@dataclass(eq=False)
class Run(RunData):
    """A run, finished or not, that was read whole."""

    directory: Path
    about: Mapping[str, Any]
    status: Status
    history: History
    numbers: Numbers
    deciding: Mapping[Key, float]
    """Seconds that exploring took, by the interval explored for."""
    events: Mapping[tuple[int | None, int | None], Event]
    """Failures on record, by interval."""
    choice: Choice | None
    """What the run hands over; None if nothing completed."""

    def __post_init__(self) -> None:
        self.space = self.history.space
        self.winner = [] if self.choice is None else self.history.lineage(self.choice.observation)
        """The lineage of what the run hands over, the first ancestor first."""
        self.lineage = [(*step.key, step.score) for step in self.winner]

    @staticmethod
    def read(directory: str | Path) -> "Run":
        """Read the run in a folder as it is now."""
        history = History.load(directory)
        with reading(directory) as store:
            about, deciding = store.about, store.deciding()
            rows = numbers(store, "observation")[: len(history)]  # A run in training may have continued.
            events = {(event.member, event.round): event for event in store.events()}
            choice = handed_over(store, history)
        return Run(Path(directory), about, status(directory), history, rows, deciding, events, choice)

    @property
    def name(self) -> str:
        """Name of the folder; if that is only a number (such as a seed), with its parent folder."""
        folder = self.directory if self.directory.name else self.directory.resolve()
        name = f"{folder.parent.name}/{folder.name}" if folder.name.isdecimal() else folder.name or str(folder)
        return shorten(name.lstrip("/"), MAX_LABEL_CHARS)

    @property
    def method(self) -> str:
        """Name of the method, or of the agent if nothing was tuned."""
        return method_label(self.about, self.space)

    @cached_property
    def rows(self) -> Rows:
        """Intervals that trained, as the models see them, by round and member: with the change per usual budget."""
        return self.history.recent()

    @cached_property
    def intervals(self) -> IntervalArrays:
        """Every interval that trained, by round and member."""
        rows = self.rows
        change = difference(self.scores[rows.round, rows.member], self.sign * rows.before)
        return IntervalArrays(rows.points, rows.member, rows.round, change)

    @cached_property
    def measured(self) -> BoolArray:
        """Mask of the rows whose change was measured, not guessed."""
        return np.isfinite(self.rows.change) & ~self.rows.guessed

    @cached_property
    def gains(self) -> FloatArray:
        """What each row gained beside the others, more is better: of its round, and where they were at its score.

        A slow starter gains much because there is much to gain, so that changes as such compare states, not settings.
        NaN where the change was not measured. A member that is alone is compared with nobody.
        """
        rows = self.rows[self.measured]
        surplus = rows.change
        if len(np.unique(rows.member)) > 1:
            surplus = surplus - usual_at(rows.before, surplus, rows.member)
            beside = beside_others(surplus, rows.round)
            surplus = np.where(np.isfinite(beside), beside, surplus)
        found = np.full(len(self.rows), np.nan)
        found[self.measured] = without_rounding(surplus, np.abs(rows.before) + np.abs(rows.change))
        return found

    @property
    def horizon(self) -> int:
        """The last round of an axis."""
        return len(self.scores) - 1

    @cached_property
    def metrics(self) -> Sequence[str]:
        """Names of the metrics that curves can show."""
        every = max(1, math.ceil(len(self.history) / MAX_INTERVALS_SEARCHED))
        return metric_names(self.history[i].metrics for i in range(0, len(self.history), every))

    def metric(self, name: str) -> FloatArray:
        """Return a metric, (rounds, members); NaN where it was not reported."""
        return on_table(self.indices, metric_column(name, (o.metrics for o in self.history)))

    @property
    def tuned(self) -> bool:
        """False if there is one configuration alone: of a space without a choice, or of an agent that keeps its own."""
        if self.space.fixed:
            return False
        several = max(self.size, self.about.get("size") or 0) > 1 or self.about.get("explore") == "all"
        return several or any(o.config != self.history[0].config for o in self.history)

    @property
    def final(self) -> Observation | None:
        """The member that is best in the end, by the last round that each completed."""
        last = map(self.history.last_completed, range(self.size))
        return max((o for o in last if o is not None), key=lambda o: merit(o, self.sign), default=None)

    @property
    def failures(self) -> Iterator[Event]:
        """The intervals that failed, in order."""
        for o in self.history:
            if o.failed:
                yield self.events.get(o.key) or Event(o.status, "its score was NaN", o.member, o.round)

    def describe(self, key: Key) -> str:
        """Return an interval's configuration on one line."""
        observation = self.history.find(key)
        assert observation is not None, f"{key} is not in {self.directory}"
        return describe_config(self.space, observation.config)


def method_label(about: Mapping[str, Any], space: Space) -> str:
    """Return the name of a run's method, short enough to show."""
    return shorten(method_name(about, space) or "method not on record", MAX_LABEL_CHARS)


def describe_config(space: Space, config: Mapping[str, Any]) -> str:
    """Return a configuration on one line, short enough to show.

    >>> describe_config(Space({"lr": (0.0, 1.0), "act": ["relu", None]}), {"lr": 0.12345, "act": None})
    'lr 0.123 · act None'
    """
    return shorten(
        " · ".join(f"{name} {setting(value)}" for name, value in space.flatten(config).items()), MAX_CONFIG_CHARS
    )


def changed(space: Space, old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the values that differ between two configurations, as texts by name; a dash where one is inactive.

    Floats that are equal up to rounding do not differ.

    >>> changed(Space({"lr": (0.0, 1.0), "act": ["relu", None]}), {"lr": 0.5, "act": None}, {"lr": 0.75, "act": None})
    {'lr': ('0.5', '0.75')}
    >>> changed(Space({"lr": (0.0, 1.0)}), {"lr": 0.3}, {"lr": 0.1 + 0.2})
    {}
    """
    before, after = space.flatten(old), space.flatten(new)
    numbers = {number.name: number for number in space.numerical}
    found = {}
    for name in space.names:
        pair = before.get(name, "–"), after.get(name, "–")
        both = name in before and name in after
        same = numbers[name].same if both and name in numbers else operator.eq
        if not same(*pair):
            old_text, new_text = (setting(value, MAX_LABEL_CHARS) for value in pair)
            if old_text == new_text:  # They differ further on.
                old_text, new_text = (shorten(str(value), MAX_CONFIG_CHARS) for value in pair)
            found[name] = old_text, new_text
    return found


def describe_changes(space: Space, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the values that differ between two configurations on one line, short enough to show."""
    parts = (f"{name} {before} → {after}" for name, (before, after) in changed(space, old, new).items())
    return shorten(" · ".join(parts), MAX_CONFIG_CHARS) or "nothing else"


def shorten(given: str, length: int) -> str:
    """Shorten a text; a long limit keeps its beginning and end, a short one also puts it on one line.

    >>> shorten("abcdefghij", 10), shorten("label " + 100 * "x", 12), shorten("two\\nlines", 20)
    ('abcdefghij', 'label xxxxx…', 'two lines')
    """
    if length < MIN_MULTILINE_CHARS:
        # Vega's expressions, which hold names of labels, allow no line breaks in a string.
        given = printable(given[: length + 1])
    if len(given) <= length:
        return given
    if length < MIN_MULTILINE_CHARS:
        return f"{given[: length - 1]}…"
    half = length // 2
    return f"{given[:half]}\n… {len(given) - 2 * half:,} characters left out …\n{given[-half:]}"


def label_names(labels: tuple[Any, ...]) -> list[str]:
    """Return labels as text short enough to show, each different.

    >>> label_names(("crop", None, 3, "3"))
    ['crop', 'None', '3', '3 (4)']
    """
    names: list[str] = []
    for number, label in enumerate(labels, 1):
        name = shorten(text(label), MAX_LABEL_CHARS) or "(empty)"
        names.append(f"{name} ({number})" if name in names else name)
    return names
