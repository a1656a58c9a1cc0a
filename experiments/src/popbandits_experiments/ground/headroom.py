"""Whether a task can show what tuning is for: its reward can be learnt, and the usual settings are not the end.

A study of a task trains the usual settings and random configurations of its spaces to the end of one member's budget.
The best configurations are trained again with new seeds, because the best of a hundred runs owes a part to luck: one is
chosen on some of these seeds and judged on the others. What counts is the state with the best score ever on fresh
episodes, as in populations: settings that only overfit in the end leave nothing to gain to someone who stops early.
Results are JSON lines, one for each member, a file for each
task; a killed study loses only the line in progress.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from popbandits.basics.wording import number
from popbandits.errors import HistoryError
from popbandits_experiments import RESULTS as STORED
from popbandits_experiments.ground.records import SPACES, Record, Space
from popbandits_experiments.ground.scales import scale_of
from popbandits_experiments.ground.statistics import FloatArray
from popbandits_experiments.json_lines import append_lines

RESULTS = STORED / "headroom"
BEST_OF = 4
"""Runs of the usual settings of which the one with the best last score counts; also the factor of longer runs."""
TOP, CHOOSING, JUDGING = 4, 4, 8
"""Configurations that are trained again, seeds on which one of them is chosen, seeds on which it is judged."""
NOISE = 2.0
"""Standard errors that a difference of two means must exceed."""
WORTH = 0.05
"""Part of the way from the floor to the usual settings by which the best configuration must be ahead of these."""

What = Literal["untrained", "random", "still", "usual", "longer", "sample", "again"]
Verdict = Literal["headroom", "saturated", "unlearnable", "unknown"]


class Key(NamedTuple):
    """Identity of a member of a study."""

    task: str
    what: What
    space: Space | None
    """Space of a random configuration; None for the usual settings, which are the same in every space."""
    index: int  # type: ignore[assignment]  # It hides a method of tuples.
    """Number of a random configuration, or of a run among the best of four."""
    seed: int


@dataclass(frozen=True)
class Entry:
    """Outcome of one member of a study; one that diverged has the task's random score."""

    task: str
    what: What
    space: Space | None
    index: int
    seed: int
    steps: int
    score: float
    """Last score while training, by which the best of four is chosen."""
    final: float
    """Mean return of fresh episodes."""
    device: str
    seconds: float
    best: float | None = None
    """Best score ever while training; None in studies before it was kept."""
    kept: float | None = None
    """Mean return of fresh episodes of the state with that score: what someone has who stops early."""

    @property
    def key(self) -> Key:
        """Identity of the member."""
        return Key(self.task, self.what, self.space, self.index, self.seed)


def append(entries: Iterable[Entry], folder: Path = RESULTS) -> None:
    """Append entries to the files of their tasks."""
    by_task: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        by_task.setdefault(entry.task, []).append(asdict(entry))
    for task, rows in by_task.items():
        append_lines(folder / f"{task}.jsonl", rows)


def read(folder: Path = RESULTS, task: str = "*") -> dict[Key, Entry]:
    """Return every entry of a folder, or those of a task. Incomplete last lines are left out."""
    found: dict[Key, Entry] = {}
    for path in sorted(folder.glob(f"{task}.jsonl")):
        for place, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
            try:
                entry = _parsed(line)
            except (ValueError, TypeError) as error:
                raise HistoryError(f"{path}:{place}: damaged line: {error}") from error
            if entry.key in found:
                raise HistoryError(f"{path}:{place}: a member must be stored once, got {entry.key} twice")
            found[entry.key] = entry
    return found


@cache  # A study reads what is stored again before every batch.
def _parsed(line: bytes) -> Entry:
    return Entry(**json.loads(line))


@dataclass(frozen=True)
class Study:
    """What is stored of a task and one of its spaces."""

    task: str
    space: Space
    entries: tuple[Entry, ...]
    """Entries of the task, without those of other spaces."""

    @cached_property
    def early(self) -> bool:
        """Whether states with the best score ever count; the last ones, if not every trained member has the other."""
        return all(entry.kept is not None for entry in self.entries if entry.what in TRAINED)

    def _fresh(self, entry: Entry) -> float:
        return entry.kept if self.early and entry.kept is not None else entry.final

    def _ranking(self, entry: Entry) -> float:
        """Return the score by which one of several runs is chosen."""
        return entry.best if self.early and entry.best is not None else entry.score

    def finals(self, what: What) -> FloatArray:
        """Return the fresh scores of one kind, by index and seed."""
        return np.array([self._fresh(entry) for entry in self._of(what)])

    def _of(self, what: What) -> list[Entry]:
        return sorted((entry for entry in self.entries if entry.what == what), key=lambda entry: entry.key[3:])

    @cached_property
    def one(self) -> FloatArray:
        """Scores of the usual settings with the budget of one member, by seed."""
        return np.array([self._fresh(entry) for entry in self._of("usual") if entry.index == 0])

    @cached_property
    def best(self) -> FloatArray:
        """Scores of the best of four runs of the usual settings, by seed; of complete fours only."""
        fours: dict[int, list[Entry]] = {}
        for entry in self._of("usual"):
            fours.setdefault(entry.seed, []).append(entry)
        whole = [four for four in fours.values() if len(four) == BEST_OF]
        return np.array([self._fresh(max(four, key=self._ranking)) for four in whole])

    @cached_property
    def chosen(self) -> int | None:
        """Number of the configuration that is best on the choosing seeds; None while they are not complete."""
        trials: dict[int, list[float]] = {}
        for entry in self._of("again"):
            trials.setdefault(entry.index, []).append(self._fresh(entry))
        if len(trials) < TOP or any(len(finals) < CHOOSING + JUDGING for finals in trials.values()):
            return None
        return max(trials, key=lambda index: float(np.mean(trials[index][:CHOOSING])))

    @cached_property
    def judged(self) -> FloatArray:
        """Scores of the chosen configuration on the judging seeds."""
        return np.array(
            [self._fresh(entry) for entry in self._of("again") if entry.index == self.chosen and entry.seed >= CHOOSING]
        )

    @cached_property
    def random(self) -> float:
        """Mean score of random actions; where these were not measured, that of the task's scale."""
        found = self.finals("random")
        return float(found.mean()) if len(found) else scale_of(self.task).random

    @cached_property
    def floor(self) -> float:
        """Score that needs no training: the best of random actions, untrained policies and standing still."""
        measured = [found.mean() for what in FREE if len(found := self.finals(what))]
        return float(max([self.random, *measured]))

    @property
    def top(self) -> list[int]:
        """Numbers of the random configurations with the best scores."""
        ranked = sorted(self._of("sample"), key=lambda entry: -self._fresh(entry))
        return [entry.index for entry in ranked[:TOP]]

    @cached_property
    def judgement(self) -> "Judgement":
        """Verdict, with its reason.

        Learnable: some trained mean, less its noise, is above the floor. Headroom: the chosen configuration is ahead of
        the best of four with the usual settings by more than NOISE standard errors and by more than WORTH of the way
        from the floor to these.
        """
        if self.chosen is None or not len(self.best) or not len(self.finals("untrained")):
            return Judgement("unknown", "not studied")
        trained = (self.one, self.best, self.finals("longer"), self.judged)
        reached = max(float(found.mean()) - NOISE * error(found) for found in trained if len(found))
        if reached <= self.floor:
            return Judgement("unlearnable", f"training reaches {number(reached)}, no training {number(self.floor)}")
        ours, theirs = float(self.judged.mean()), float(self.best.mean())
        noise = NOISE * float(np.hypot(error(self.judged), error(self.best)))
        least = max(noise, WORTH * (theirs - self.floor))
        verdict: Verdict = "headroom" if ours - theirs > least else "saturated"
        return Judgement(verdict, f"{number(ours)} after tuning, {number(theirs)} with the usual settings")


TRAINED: tuple[What, ...] = ("usual", "longer", "sample", "again")
FREE: tuple[What, ...] = ("untrained", "still")
"""Measured scores of the floor besides those of random actions."""


@dataclass(frozen=True)
class Judgement:
    """What a study says of a task and space."""

    verdict: Verdict
    reason: str


def error(finals: FloatArray) -> float:
    """Return the standard error of a mean; 0 for a single score."""
    return float(finals.std(ddof=1) / np.sqrt(len(finals))) if len(finals) > 1 else 0.0


def studies(entries: Iterable[Entry]) -> list[Study]:
    """Arrange entries by task and space; a task without random configurations has no study."""
    by_task: dict[str, list[Entry]] = {}
    for entry in entries:
        by_task.setdefault(entry.task, []).append(entry)
    return [
        Study(task, space, tuple(entry for entry in own if entry.space in (None, space)))
        for task, own in by_task.items()
        for space in SPACES
        if any(entry.space == space for entry in own)
    ]


Judgements = Mapping[tuple[str, Space], Judgement]
"""Judgements by task and space."""
UNKNOWN = Judgement("unknown", "not studied")


def judge(folder: Path = RESULTS) -> Judgements:
    """Judge every task and space that is stored in a folder."""
    return {(study.task, study.space): study.judgement for study in studies(read(folder).values())}


@dataclass(frozen=True)
class Admission:
    """Which tasks enter a mean over tasks: those with headroom, unless all are asked for."""

    judgements: Judgements
    all_tasks: bool = False

    @staticmethod
    def asked(options: argparse.Namespace) -> "Admission":
        """Return what the options of `add_admission` ask for."""
        return Admission(judge(options.headroom), options.all_tasks)

    def admits(self, task: str, space: Space) -> bool:
        """Tell whether a task and space enter means."""
        return self.all_tasks or self._judgement(task, space).verdict == "headroom"

    def of(self, records: Iterable[Record]) -> list[Record]:
        """Return the records that enter means over tasks."""
        return [record for record in records if self.admits(record.task, record.space)]

    @property
    def tasks(self) -> str:
        """Tasks that enter means, in words that follow "tasks"."""
        return "with or without headroom" if self.all_tasks else "with headroom"

    def words(self, records: Iterable[Record]) -> str:
        """List the tasks of records that have no headroom, with the reason and whether they enter means."""
        lines = []
        for task, space in sorted({(record.task, record.space) for record in records}):
            judgement = self._judgement(task, space)
            if judgement.verdict != "headroom":
                lines.append(f"- {task}, {space} space: {judgement.verdict}, {judgement.reason}")
        head = "In means too, as --all-tasks asks, though no headroom is known" if self.all_tasks else "In no mean"
        return "\n".join([f"{head} (`headroom table`):", "", *lines]) if lines else ""

    def _judgement(self, task: str, space: Space) -> Judgement:
        return self.judgements.get((task, space), UNKNOWN)


def add_admission(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which tasks enter means."""
    parser.add_argument(
        "--headroom", type=Path, default=RESULTS, help="folder of the studies of headroom (%(default)s)"
    )
    parser.add_argument("--all-tasks", action="store_true", help="let tasks without headroom enter means")
