"""The findings of an agent's check, and the agent's costs."""

import math
from dataclasses import dataclass
from enum import StrEnum
from io import StringIO
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text

from popbandits.errors import AgentError

Status = Literal["ok", "warning", "problem"]

_COLOURS: dict[Status, str] = {"ok": "green", "warning": "yellow", "problem": "bold red"}
_WIDTH = 100
_MARGIN = 10


class AgentRule(StrEnum):
    """Rules for an agent, in the order of a report."""

    RUNS = "make_agent, train, save and load run without errors"
    SCORE = "train returns a finite score"
    CONFIG = "train does not change its argument"
    MOVED = "a checkpoint can be moved"
    UNCHANGED = "nothing changes a checkpoint once it is saved"
    SEED = "the same seed trains alike"
    SHARED = "members share no random generator"
    COMPLETE = "a checkpoint holds everything that training resumes from"
    ALIKE = "two loads of one checkpoint train alike"
    HELD = "after a load, the new hyperparameters apply"
    USED = "train uses its hyperparameters"
    APPLIED = "applied() returns the hyperparameters that train was given"
    EVALUATED = "evaluate(seed) repeats itself and changes nothing that is saved"


class BatchRule(StrEnum):
    """More rules, for a batch of agents."""

    COMPANY = "a member trains alike at any index, whatever the other members do"
    COPY = "copy replaces members by copies of others, all at once"
    APART = "a load or a reset of one member does not change the others"
    RESET = "reset makes a member equal to a new one of the seed"
    DIVERGED = "a member that diverges harms no other and can be replaced"
    MEMORY = "a member trains alike from memory and from its checkpoint"
    SIZE = "a member trains alike in a batch of one"


AnyRule = AgentRule | BatchRule


@dataclass(frozen=True)
class Finding:
    """The result of checking a rule; if it is broken, what was seen and how to fix it."""

    rule: AnyRule
    status: Status
    text: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.text or self.status}"


@dataclass(frozen=True)
class Costs:
    """Seconds (medians) and bytes, for estimating a run of `population` members and `rounds` rounds."""

    build: float
    train: float
    save: float
    """With the checksums of the files, and until they are on the disk."""
    load: float
    """With the comparison of the checksums."""
    size: int
    """Bytes of a checkpoint."""
    intervals: int
    """Number of intervals that the check trained."""
    population: int = 4
    rounds: int = 50
    batched: bool = False
    """True if all members train in one call, and stay in memory."""
    recording: float = 0.0
    """Seconds of an interval outside its agent: deciding, recording, moving and removing checkpoints."""
    start: float = 0.0
    """Seconds to open and close a run; with engine="processes", also until a worker process has started."""

    @property
    def interval(self) -> float:
        """Seconds of an interval: load, train, save and record; for a batch, train all, save and record each."""
        if self.batched:
            return self.train + self.population * (self.save + self.recording)
        return self.load + self.train + self.save + self.recording

    @property
    def overhead(self) -> float:
        """Share of an interval spent on anything but training."""
        return (self.interval - self.train) / self.interval if self.interval else 0.0

    @property
    def one_by_one(self) -> float:
        """Seconds of a run whose members train one after another; for a batch, of the run."""
        times = 1 if self.batched else self.population
        return self.start + times * (self.build + self.rounds * self.interval)

    @property
    def at_once(self) -> float:
        """Seconds of a run whose members train at once and do not slow each other down; recording is one by one."""
        apart = self.rounds * (self.interval - self.recording)
        return self.start + self.build + apart + self.rounds * self.population * self.recording

    def __str__(self) -> str:
        if self.batched:
            return (
                f"Building takes {_time(self.build)}, an interval of all members {_time(self.interval)}: train "
                f"{_time(self.train)}, save {_time(self.save)} and record {_time(self.recording)} each "
                f"({self.overhead:.1%} for saving and recording). A checkpoint has {_bytes(self.size)}, and loads in "
                f"{_time(self.load)}.\n"
                f"{self.population} members x {self.rounds} rounds take {_time(self.one_by_one)}."
            )
        return (
            f"Building takes {_time(self.build)}, an interval {_time(self.interval)}: load {_time(self.load)}, "
            f"train {_time(self.train)}, save {_time(self.save)}, record {_time(self.recording)} "
            f"({self.overhead:.1%} for everything but training). A checkpoint has {_bytes(self.size)}.\n"
            f"{self.population} members x {self.rounds} rounds take {_time(self.one_by_one)} one after another, "
            f"{_time(self.at_once)} if all train at once and do not slow each other down; {_time(self.start)} of it to "
            "start. Python's own start and imports come on top."
        )


@dataclass(frozen=True)
class Report:
    """The findings of `check_agent`: print it to read them; `ok` and `findings` are for programs.

    >>> report = Report((Finding(AgentRule.SCORE, "ok"), Finding(AgentRule.SEED, "warning", "got 1.0 and 2.0")))
    >>> report.ok
    True
    >>> print(report)
    ok        train returns a finite score
    warning   the same seed trains alike
              got 1.0 and 2.0
    open      make_agent, train, save and load run without errors
    ...
    """

    findings: tuple[Finding, ...]
    """One finding for each rule that could be checked."""
    costs: Costs | None = None
    """None if the agent failed before they were measured."""
    rules: tuple[AnyRule, ...] = tuple(AgentRule)
    """All rules."""

    @property
    def ok(self) -> bool:
        """True if there are no problems; there may be warnings."""
        return not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Findings of broken rules."""
        return tuple(finding for finding in self.findings if finding.status == "problem")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that may be intended, or could not be decided."""
        return tuple(finding for finding in self.findings if finding.status == "warning")

    def raise_for_problems(self) -> None:
        """Raise AgentError with every problem, if there is one."""
        if not self.ok:
            raise AgentError("the agent breaks its contract:\n" + "\n".join(f"- {each}" for each in self.problems))

    def __str__(self) -> str:
        text = StringIO()
        Console(file=text, width=_WIDTH, color_system=None).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for finding in self.findings:
            line = Text(f"{finding.status:<{_MARGIN}}", style=_COLOURS[finding.status], end="")
            yield Text.assemble(line, Text(finding.rule))
            if finding.text:
                yield Padding(Text(finding.text), (0, 0, 0, _MARGIN))
        tried = {finding.rule for finding in self.findings} | {AgentRule.APPLIED, AgentRule.EVALUATED}
        for rule in self.rules:
            if rule not in tried:
                yield Text(f"{'open':<{_MARGIN}}{rule}", style="dim")
        if self.costs is not None:
            yield Text(f"\n{self.costs}\nThe check trained for {self.costs.intervals} intervals.")


def _time(seconds: float) -> str:
    """Format seconds.

    >>> _time(0.00123), _time(3.21), _time(150), _time(9000)
    ('1.2 ms', '3.2 s', '2.5 min', '2.5 h')
    """
    if seconds < 1:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.0995 else f"{1000 * seconds:.0f} ms"
    size, unit = next(((s, u) for s, u in ((1, "s"), (60, "min"), (3600, "h")) if seconds < 100 * s), (86400, "days"))
    return f"{seconds / size:.1f} {unit}"


def _bytes(size: float) -> str:
    """Format bytes.

    >>> _bytes(0), _bytes(2500), _bytes(2.5e9)
    ('0 B', '2.5 kB', '2.5 GB')
    """
    thousands = min(3, int(math.log10(max(size, 1)) / 3))
    return f"{size / 1000**thousands:.3g} {('B', 'kB', 'MB', 'GB')[thousands]}"
