"""Counts of kills and faults that runs survived, as a table and as JSON."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ENGINES = ("in-process", "threads", "processes")


@dataclass
class Tally:
    """Results of some trials; all counts but `calls`, `tried`, `trials` and `kinds` must be 0."""

    engine: str
    synchronous: bool
    calls: int = 0
    """Number of file-system calls of a run that is not killed."""
    tried: int = 0
    """Number of calls at which a run was killed and then resumed to its end."""
    trials: int = 0
    """Number of kills, including those of resumed runs; or of failed intervals."""
    lost: int = 0
    """Number of intervals that are missing from the record, or differ."""
    doubled: int = 0
    hangs: int = 0
    tracebacks: int = 0
    """Number of errors that are not the library's own."""
    left: int = 0
    """Number of processes, drafts and checkpoints left behind."""
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        """Add the counts of another tally of the same kind."""
        self.calls = max(self.calls, other.calls)
        for name in ("tried", "trials", "lost", "doubled", "hangs", "tracebacks", "left", "kinds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def faults(self) -> int:
        return self.lost + self.doubled + self.hangs + self.tracebacks + self.left

    def __str__(self) -> str:
        counts = (self.trials, self.lost, self.doubled, self.hangs, self.tracebacks, self.left)
        together = "yes" if self.synchronous else "no"
        return f"| {self.engine} | {together} | {' | '.join(f'{count:,}' for count in counts)} |"


@dataclass
class Results:
    """Tallies of all finished jobs."""

    killed: list[Tally] = field(default_factory=list)
    failed: list[Tally] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return sum(tally.faults for tally in (*self.killed, *self.failed))

    def write(self, path: Path | None) -> None:
        """Write the counts as JSON, unless `path` is None."""
        if path is not None:
            kept = {"kills": summed(self.killed), "faults": summed(self.failed)}
            path.write_text(json.dumps({name: list(map(vars, tallies)) for name, tallies in kept.items()}))

    def __str__(self) -> str:
        head = "lost | doubled | hangs | raw tracebacks | left behind |\n|---|---|---|---|---|---|---|---|"
        lines: list[str] = []
        if killed := summed(self.killed):
            lines += [f"| engine | rounds end together | kills | {head}", *map(str, killed)]
            at = ", ".join(f"{tally.tried} of {tally.calls}" for tally in killed)
            count = sum(tally.trials for tally in killed)
            lines.append(f"\n{count:,} kills; calls at which runs were killed: {at}.\n")
        if failed := summed(self.failed):
            lines += [f"| engine | rounds end together | failed intervals | {head}", *map(str, failed)]
            kinds = sum((tally.kinds for tally in failed), Counter[str]())
            said = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
            lines.append(f"\nFailures by kind: {said}.")
        return "\n".join(lines)


def summed(tallies: Iterable[Tally]) -> list[Tally]:
    """Sum tallies by engine and mode, in the order of engines."""
    sums: dict[tuple[str, bool], Tally] = {}
    for tally in tallies:
        cell = tally.engine, tally.synchronous
        sums.setdefault(cell, Tally(*cell)).add(tally)
    return sorted(sums.values(), key=lambda tally: (ENGINES.index(tally.engine), not tally.synchronous))
