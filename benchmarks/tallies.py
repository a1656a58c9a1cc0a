"""Counts of what runs survived, as a table and as JSON."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ENGINES = ("in-process", "threads", "processes")


@dataclass
class Tally:
    """What came of some trials; all counts but `calls`, `tried`, `trials` and `kinds` must be 0."""

    engine: str
    synchronous: bool
    calls: int = 0
    """File-system calls of a run that is not killed."""
    tried: int = 0
    """Calls at which a run was killed and then ended."""
    trials: int = 0
    """Kills, those of resumed runs included; or failed intervals."""
    lost: int = 0
    """Intervals that were on record, or should be, and are not, or are others."""
    doubled: int = 0
    hangs: int = 0
    tracebacks: int = 0
    """Errors that are not the library's own."""
    left: int = 0
    """Processes, drafts and checkpoints that nobody needs."""
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        """Count another's trials of the same kind in."""
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
    """Tallies of all jobs that ended."""

    killed: list[Tally] = field(default_factory=list)
    failed: list[Tally] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return sum(tally.faults for tally in (*self.killed, *self.failed))

    def write(self, path: Path | None) -> None:
        """Write the counts as JSON, if there is where to."""
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
    """One tally for each engine and mode, in the order of engines."""
    sums: dict[tuple[str, bool], Tally] = {}
    for tally in tallies:
        cell = tally.engine, tally.synchronous
        sums.setdefault(cell, Tally(*cell)).add(tally)
    return sorted(sums.values(), key=lambda tally: (ENGINES.index(tally.engine), not tally.synchronous))
