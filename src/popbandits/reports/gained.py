"""Compare the winner of a run with its start: the gain of tuning, with its noise."""

import math
from dataclasses import dataclass

import numpy as np

from popbandits.advice import score_noise
from popbandits.basics.arithmetic import difference, without_rounding
from popbandits.basics.records import merit
from popbandits.basics.settings import CONTROL
from popbandits.basics.typing import FloatArray
from popbandits.basics.wording import number
from popbandits.history import Key, Observation
from popbandits.reports.run import Run
from popbandits.selection.choice import Choice

MIN_APART = 8
"""Fewest rounds in which both trained apart for a lead to be told: in the first ones it is luck."""

MIN_COMPARED = 3
"""Fewest rounds whose spread tells the noise; of fewer, the noise of a score must be known."""


@dataclass(frozen=True)
class Gain:
    """The lead of the member that is best in the end over one that was not tuned.

    Args:
        over: Whom it is compared with, in words.
        where: Where that one is found.
        line: The intervals of that one, as far as the record has them.
        whole: True if it trained as long as the winner.
        lead: Mean lead in the last rounds that both trained apart, of which more is better; NaN if there are none.
        error: Two standard errors of the lead; NaN if unknown.
        rounds: The rounds that were compared.
        apart: Number of rounds in which both trained apart, of which the last were compared.
        tuned: False if there was one configuration alone, so that there is nothing to compare.
        choice: What the run hands over, which need not be either of the two.
    """

    over: str
    where: str
    line: list[Observation]
    whole: bool
    lead: float
    error: float
    rounds: list[int]
    apart: int
    tuned: bool
    choice: Choice

    @property
    def none(self) -> bool:
        """True if the member that is best in the end is the one that was not tuned."""
        return self.whole and not self.apart

    @property
    def kept(self) -> bool:
        """True if the run hands over an interval of the one that was not tuned."""
        return any(o.key == self.choice.observation.key for o in self.line)

    @property
    def seen(self) -> int:
        """Number of rounds that tell what was gained."""
        return len(self.line) if self.none else self.apart

    @property
    def early(self) -> bool:
        """True if there are too few rounds for a lead to mean something."""
        return self.seen < MIN_APART

    @property
    def clear(self) -> bool:
        """True if the lead is more than its noise."""
        return self.lead > self.error

    def __str__(self) -> str:
        if not self.tuned:
            return "–"
        if self.early:
            return f"– ({self.seen} of {MIN_APART} rounds)"
        return "–" if self.none else f"{number(self.lead, 3, '+')} ± {number(self.error, 2)}"


def gain_over_start(run: Run) -> Gain | None:
    """Compare the member that is best in the end with the control, or the start as far as the record has it.

    Without either, with the first configuration that was kept longest. None if nothing has completed.
    """
    final = run.final
    if final is None:
        return None
    start = bool(run.about.get("start"))
    if run.about.get("control"):
        over, line = "the control", [o for o in run.history if o.member == CONTROL and not o.failed]
    else:
        over, line = "the start" if start else "a first configuration", _kept_longest(run, start)
    where = f"member {line[0].member}, on record until round {line[-1].round}" if line else "not on record"
    rivals = {o.round: o for o in line}
    apart = [o for o in run.history.lineage(final) if o.round in rivals and rivals[o.round].key != o.key]
    last = apart[-max(MIN_COMPARED, len(apart) // 4) :]
    ahead = np.array([run.sign * difference(o.score, rivals[o.round].score) for o in last])
    scale = max((abs(each.score) for o in last for each in (o, rivals[o.round])), default=0.0)
    lead = without_rounding(float(ahead.mean()), scale) if len(ahead) else math.nan
    whole = bool(line) and line[-1].round >= final.round
    rounds, error = [o.round for o in last], _two_errors(run, ahead, scale)
    assert run.choice is not None, "an interval has completed"
    return Gain(over, where, line, whole, lead, error, rounds, len(apart), run.tuned, run.choice)


def _two_errors(run: Run, ahead: FloatArray, scale: float) -> float:
    """Return two standard errors of the mean lead: by its spread over rounds, or a score's noise if that is more."""
    noise, count = score_noise(run.history), len(ahead)
    known = [] if noise is None or not count else [math.sqrt(2 * noise)]
    known += [without_rounding(float(ahead.std(ddof=1)), scale)] if count >= MIN_COMPARED else []
    return 2 * max(known) / math.sqrt(count) if known else math.nan


def _kept_longest(run: Run, only_start: bool) -> list[Observation]:
    """Return the longest line of intervals that trained with a first configuration, that of member 0 if it is given."""
    pure: dict[Key, Observation] = {}
    for o in run.history:
        source = pure.get(o.parent) if o.parent is not None else None
        fresh = o.round == 0 and not (only_start and o.member)
        if not o.failed and (fresh if o.parent is None else source is not None and source.config == o.config):
            pure[o.key] = o
    last = max(pure.values(), key=lambda o: (o.round, *merit(o, run.sign)), default=None)
    return [] if last is None else run.history.lineage(last)
