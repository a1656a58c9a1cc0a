"""Wanted runs in order of worth: `python -m popbandits_experiments.queue next|missing|store`.

`experiments/queue.toml` lists them, the most wanted first. An entry names a command; the rest of it are options of that
command: `run` and `headroom` of `popbandits_experiments.ground`, or `procgen` of `popbandits`. `next` calls the
commands, which skip what is stored and resume what was begun, until the seconds given are over; trials of Procgen of
several entries train at the same time, as many as `--at-a-time` members make. `missing` prints what is not stored, with
an estimate of its cost from runs that are. `store` copies finished trials to `experiments/results`; the other commands
write there themselves.
"""

import argparse
import math
import sys
import time
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from popbandits.basics.wording import counted, duration
from popbandits.commands.registry import STOPPED
from popbandits.errors import ArgumentError, PopbanditsError
from popbandits.run import Experiment
from popbandits.run.result import Result
from popbandits.storage.schema import RUN_FILE
from popbandits.storage.store import reading
from popbandits_experiments import RESULTS
from popbandits_experiments.ground import headroom, records, run, study
from popbandits_experiments.ground.grounds import GROUNDS
from popbandits_experiments.paper.commands.procgen import planned, procgen, train
from popbandits_experiments.paper.procgen.methods import ALONE
from popbandits_experiments.storing import keep

QUEUE = RESULTS.parent / "queue.toml"
SHORTEST = 60.0
"""Fewest seconds for which a trial of Procgen is resumed: its rounds take minutes."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are those of the library."""

    def error(self, message: str) -> Any:
        """Raise ArgumentError."""
        raise ArgumentError(message)


@dataclass(frozen=True)
class Entry(ABC):
    """An entry of the queue."""

    options: Mapping[str, Any]
    """Options of the command by name, without dashes: text, a number, a list of these, or true."""

    @property
    def words(self) -> str:
        """Options in words."""
        return ", ".join(f"{name} {' '.join(_texts(value))}".strip() for name, value in self.options.items())

    def parse(self, parser: argparse.ArgumentParser, extra: Sequence[str] = ()) -> argparse.Namespace:
        """Parse the options as the command does."""
        given = [text for name, value in self.options.items() for text in (f"--{name}", *_texts(value))]
        try:
            return parser.parse_args([*extra, *given])
        except ArgumentError as error:
            raise ArgumentError(f"an entry of the queue must suit its command, got {self.words}: {error}") from error

    @abstractmethod
    def missing(self) -> tuple[int, float]:
        """Count the runs that are not stored, and estimate their seconds: NaN if nothing like them is stored."""


class Batches(Entry):
    """An entry whose command runs batches and writes to the stored results."""

    @abstractmethod
    def work(self, seconds: float, extra: Sequence[str]) -> None:
        """Run what is missing, and start nothing after `seconds`."""


def _texts(value: Any) -> list[str]:
    """Return the arguments of an option."""
    if value is True:
        return []
    return [str(one) for one in (value if isinstance(value, list) else [value])]


class Populations(Batches):
    """Populations of `ground run`."""

    def _parse(self, extra: Sequence[str] = ()) -> argparse.Namespace:
        parser = Parser(prog="run")
        run.add_arguments(parser)
        return self.parse(parser, extra)

    def missing(self) -> tuple[int, float]:
        """Count the populations, and estimate from those of the same task, else from the steps of any task."""
        options = self._parse()
        members = [(batch.ground.name, batch.members) for batch in run._batches(options) for _ in batch.keys]
        return len(members), sum(count * _seconds_of_member(task, options.results) for task, count in members)

    def work(self, seconds: float, extra: Sequence[str]) -> None:
        """Run batches of populations."""
        run.main(self._parse([*extra, "--seconds", str(seconds)]))


class Studies(Batches):
    """Studies of `ground headroom run`."""

    def _parse(self, extra: Sequence[str] = ()) -> argparse.Namespace:
        parser = Parser(prog="headroom")
        study.add_arguments(parser)
        return self.parse(parser, ["run", *extra])

    def missing(self) -> tuple[int, float]:
        """Count the members; those that train again are counted when the others are stored."""
        keys = [key for batch in study.batches(self._parse()) for key in batch.keys]
        lengths = {"untrained": 0, "longer": headroom.BEST_OF}
        return len(keys), sum(lengths.get(key.what, 1) * _seconds_of_member(key.task, records.RESULTS) for key in keys)

    def work(self, seconds: float, extra: Sequence[str]) -> None:
        """Run batches of members."""
        study.main(self._parse([*extra, "--seconds", str(seconds)]))


class Trials(Entry):
    """Trials of `popbandits procgen`."""

    def trials(self, at_a_time: int = 1) -> list["Trial"]:
        """Return the trials, of which this many members share a machine."""
        parser = Parser(prog="procgen")
        procgen(parser)
        options = self.parse(parser)
        options.at_a_time = at_a_time
        try:
            experiments = list(planned(options))
        except ArgumentError as error:
            raise ArgumentError(f"an entry of the queue must suit its command, got {self.words}: {error}") from error
        return [Trial(experiment, RESULTS / options.output.name) for experiment in experiments]

    def missing(self) -> tuple[int, float]:
        """Count the trials that are finished neither where they run nor in the stored results."""
        found = [trial for trial in self.trials() if not trial.finished]
        return len(found), sum(trial.cost for trial in found)


@dataclass(frozen=True)
class Trial:
    """A run of Procgen, where it trains and where it is stored."""

    experiment: Experiment
    results: Path

    @property
    def folder(self) -> Path:
        """Where it trains."""
        return Path(str(self.experiment.directory))

    @property
    def stored(self) -> Path:
        """Where it is stored when it is finished."""
        return self.results.joinpath(*self.folder.parts[-3:])

    @property
    def finished(self) -> bool:
        """True if it is finished in one of the two places."""
        return _finished(self.folder) or _finished(self.stored)

    @property
    def cost(self) -> float:
        """Seconds by those that are stored; NaN if nothing like it is."""
        alone = self.folder.parent.name in ALONE
        task: Any = self.experiment.agent
        return float(task.rounds * task.interval) * _seconds_of_step(alone)


def train_trials(entries: Sequence[Trials], seconds: float, at_a_time: int, whole: bool) -> None:
    """Resume or begin the trials that are not finished; with `whole`, begin only those that end in time.

    Fewer at a time end sooner: with `whole`, half as many follow as long as a trial alone would end in time.
    """
    end = time.monotonic() + seconds
    while at_a_time and (left := end - time.monotonic()) >= SHORTEST:
        trials = [trial for entry in entries for trial in entry.trials(at_a_time) if not trial.finished]
        if whole:
            trials = [trial for trial in trials if not trial.cost > left]  # NaN where nothing like it is stored.
        if trials:
            train([trial.experiment for trial in trials], at_a_time, left, whole=whole)
        at_a_time = at_a_time // 2 if whole else 0


def store(entries: Sequence[Entry]) -> list[Path]:
    """Copy trials that are finished, and not stored yet, to the results; return where they are now."""
    kept = []
    for entry in entries:
        for trial in entry.trials() if isinstance(entry, Trials) else ():
            if _finished(trial.folder) and not trial.stored.exists():
                keep(trial.folder, trial.stored)
                kept.append(trial.stored)
    return kept


KINDS: dict[str, type[Entry]] = {"run": Populations, "headroom": Studies, "procgen": Trials}
"""Kinds of entries by command."""


def _finished(folder: Path) -> bool:
    return (folder / RUN_FILE).exists() and Result(folder).done


@cache
def _stored(folder: Path) -> list[records.Record]:
    return records.read(folder) if any(folder.glob("*.jsonl")) else []


@cache
def _seconds_of_member(task: str, folder: Path) -> float:
    """Return the mean seconds of a member in a task's stored populations; else those of as many steps elsewhere."""
    if own := [record.seconds / record.population for record in _stored(folder) if record.task == task]:
        return float(np.mean(own))
    group, steps = GROUNDS[task].group, GROUNDS[task].updates * GROUNDS[task].steps
    rates = [one.seconds / one.population / one.steps for one in _stored(folder) if one.group == group]
    return float(np.mean(rates)) * steps if rates else math.nan


@cache
def _seconds_of_step(alone: bool) -> float:
    """Return the seconds of a member's step in stored trials of one agent or of populations; NaN without any.

    Trials that shared a machine with others took longer than each would cost.
    """
    rates = []
    for path in [*RESULTS.glob(f"procgen*/*/*/*/{RUN_FILE}"), *RESULTS.glob(f"levels_*/*/*/*/{RUN_FILE}")]:
        if (path.parent.parent.name in ALONE) == alone:
            rounds: dict[int, tuple[float, float]] = {}
            with reading(path.parent) as store:
                settings, members = store.about["agent"]["settings"], store.about["size"]
            for observation in Result(path.parent).history:
                seconds, _ = rounds.get(observation.round, (0.0, 0.0))
                rounds[observation.round] = max(seconds, observation.seconds or 0.0), observation.steps or 0
            if steps := sum(steps for _, steps in rounds.values()):
                together = max(1.0, settings["at_a_time"] / members)
                rates.append(sum(seconds for seconds, _ in rounds.values()) / steps / together)
    return float(np.median(rates)) if rates else math.nan


def read(path: Path = QUEUE, only: Sequence[str] = ()) -> list[Entry]:
    """Return the entries of a queue, the most wanted first; `only` those of some commands, if there are any."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))["wanted"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise ArgumentError(f"a queue must be a TOML file with tables [[wanted]], got {path}: {error}") from error
    entries = []
    for row in found:
        if row.get("command") not in KINDS:
            raise ArgumentError(f"command must be one of {', '.join(KINDS)}, got {row.get('command')!r} in {path}")
        if not only or row["command"] in only:
            entries.append(KINDS[row["command"]]({name: value for name, value in row.items() if name != "command"}))
    return entries


def _groups(entries: Sequence[Entry]) -> Iterator[Batches | list[Trials]]:
    """Yield the entries that are not complete, one by one, but neighbouring trials together."""
    incomplete = (entry for entry in entries if entry.missing()[0])
    for kind, same in groupby(incomplete, type):
        if kind is Trials:
            yield [entry for entry in same if isinstance(entry, Trials)]
        else:
            yield from (entry for entry in same if isinstance(entry, Batches))


def work(
    entries: Sequence[Entry], seconds: float, extra: Sequence[str] = (), at_a_time: int = 1, whole: bool = False
) -> None:
    """Run what is missing, in order, until the seconds are over."""
    end = time.monotonic() + seconds
    for group in _groups(entries):
        left = end - time.monotonic()
        if left <= 0:
            return
        if isinstance(group, Batches):
            print(f"{group.words}:", flush=True)
            group.work(left, extra)
        else:
            print(*(f"{entry.words}:" for entry in group), sep="\n", flush=True)
            train_trials(group, left, at_a_time, whole)


def missing(entries: Sequence[Entry]) -> str:
    """List what is missing, with estimates of the time it takes."""
    lines, total = [], 0.0
    for entry in entries:
        count, seconds = entry.missing()
        if count:
            total += 0.0 if math.isnan(seconds) else seconds
            cost = "nobody knows how long" if math.isnan(seconds) else f"about {duration(seconds)}"
            lines.append(f"{counted(count, 'run')}, {cost}: {entry.words}")
    return "\n".join(
        [*lines, f"{len(lines)} of {len(entries)} entries are not complete, about {duration(total)} in all"]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m popbandits_experiments.queue", description=__doc__)
    parser.add_argument("command", choices=("next", "missing", "store"))
    parser.add_argument("--queue", type=Path, default=QUEUE, help="file of the queue (%(default)s)")
    parser.add_argument("--only", choices=KINDS, nargs="+", default=(), help="entries of these commands alone (all)")
    parser.add_argument("--seconds", type=float, default=600, help="start nothing after this time (%(default)s)")
    parser.add_argument("--at-a-time", type=int, default=1, help="members of Procgen's trials at a time (one trial)")
    parser.add_argument("--whole", action="store_true", help="begin only trials of Procgen that end in time")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="device of `ground`")
    parser.add_argument("--digits", type=Path, help="file with the digits, where scikit-learn is not installed")
    options = parser.parse_args(arguments)
    try:
        entries = read(options.queue, options.only)
        if options.command == "missing":
            print(missing(entries))
        elif options.command == "store":
            kept = store(entries)
            print(*kept, f"{counted(len(kept), 'trial')} stored", sep="\n")
        else:
            digits = ["--digits", str(options.digits)] if options.digits else []
            extra = ["--device", options.device, *digits]
            work(entries, options.seconds, extra, options.at_a_time, options.whole)
    except PopbanditsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; run the same command to resume", file=sys.stderr)
        return STOPPED
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
