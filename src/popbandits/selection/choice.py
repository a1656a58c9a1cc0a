r"""Choose the checkpoint that a run hands over, which is not simply the one with the best score ever.

A score is the skill of a checkpoint plus the luck of its evaluation. The best of n scores with noise of standard
deviation s is lucky by about s sqrt(2 log n): among checkpoints of nearly the same skill, luck decides which is best,
and early ones have as many chances as late ones, which have trained for longer. So three candidates are compared:

- the last checkpoint of the member whose skill is estimated highest,
- the checkpoint with the best score ever, in case training went wrong afterwards,
- the last checkpoint of the control, if the run has one: it may turn out that tuning gained nothing.

Where the agent can evaluate itself (`Agent.evaluate`), each is evaluated with the same fresh seeds, which took no part
in any decision; the best mean wins. Otherwise skills are estimated from the scores along each lineage, by the filter of
`history/noise.py` with the noise of the last WINDOW rounds: an estimate in which a lucky score counts for little. The
last checkpoint wins, unless the best ever is estimated higher by more than MARGIN standard deviations of a score's
noise. A margin is needed because the best ever was picked for its score out of many, and because training makes weights
better, as a rule. In simulations of noise alone and of a steady rise this hands over better weights than the best score
ever does, and after a collapse the same (tests/selection/test_choice.py).

Where the model finds no noise, or there are too few scores to tell, the best score ever wins: then it is the best
skill, as far as is known.

A checkpoint that is on record as lost is no candidate. If the best ever is lost, the best last one takes its part: a
run keeps no others for certain.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np

from popbandits.basics.arithmetic import without_rounding
from popbandits.basics.records import merit
from popbandits.basics.rules import Rule, whole
from popbandits.basics.settings import CONTROL
from popbandits.basics.typing import FloatArray
from popbandits.basics.wording import counted, number
from popbandits.errors import HistoryError
from popbandits.history import History, Key, Observation
from popbandits.history.noise import MAX_OBSERVATIONS, estimate

WINDOW = 16
"""Number of rounds that the noise is estimated from and a lineage is followed back."""

MARGIN = 1.0
"""Number of standard deviations of a score's noise by which the best ever must be ahead of the last."""

SKILL = Rule(lambda value: type(value) is float, "a float")
"""Rule for the skills and standard errors of an evaluation on record."""

Reason = Literal["evaluated", "smoothed", "score"]


class Past(Protocol):
    """What a choice needs of a run: a `History` has it, and so has a run's file."""

    @property
    def sign(self) -> float:
        """+1 if higher scores are better, -1 if lower ones are."""

    @property
    def size(self) -> int | None:
        """Number of members; None if unknown."""

    @property
    def best(self) -> Observation | None:
        """The completed observation with the best score."""

    @property
    def lost(self) -> set[Key]:
        """(member, round) of the checkpoints that were missing or damaged when a member was to load them."""

    def __len__(self) -> int:
        """Return the number of observations."""

    def __getitem__(self, last: slice) -> list[Observation]:
        """Return the observations from an index on."""

    def find(self, key: Key) -> Observation | None:
        """Return the observation of (member, round), or None."""

    def last_completed(self, member: int) -> Observation | None:
        """Return the last completed observation of a member, or None."""

    def ancestors(self, observation: Observation) -> Iterator[Observation]:
        """Walk back along a lineage: the observation, its parent, and so on to the fresh start."""


@dataclass(frozen=True)
class Candidate:
    """A checkpoint that a run may hand over.

    Args:
        observation: The interval that it is from.
        skill: Mean of its evaluations, or else its score smoothed along its lineage.
        standard_error: Standard error of the mean of its evaluations. None (default) for other skills, and with a
            single evaluation.
    """

    observation: Observation
    skill: float
    standard_error: float | None = None


@dataclass(frozen=True)
class Choice:
    """The checkpoint that a run hands over, and why: print it for a sentence.

    >>> import json, random
    >>> from tempfile import TemporaryDirectory
    >>> from popbandits import tune
    >>> class Climber:
    ...     height = 0.0
    ...
    ...     def train(self, config):
    ...         self.height += config["step"]
    ...         return self.height + random.gauss(0, 1)
    ...
    ...     def evaluate(self, seed):
    ...         return self.height + random.Random(seed).gauss(0, 1)
    ...
    ...     def save(self, directory):
    ...         (directory / "height").write_text(json.dumps(self.height))
    ...
    ...     def load(self, directory):
    ...         self.height = json.loads((directory / "height").read_text())
    >>> with TemporaryDirectory() as folder:
    ...     result = tune(Climber, {"step": (0.0, 1.0)}, rounds=4, directory=folder, progress=False, evaluations=5)
    ...     print(result.choice)
    member ..., round ...: ... ± ... in 5 evaluations, the ...

    Args:
        chosen: The candidate that is handed over.
        reason: Why: "evaluated" for the best mean of evaluations, "smoothed" for noisy scores smoothed along lineages,
            or "score" for the best score, if scores show no noise.
        candidates: All that were compared, the chosen one included; without those whose evaluations were not finite.
        evaluations: Number of evaluations of each candidate. Default 0, if there were none.
        lost: (member, round) of intervals that would be candidates if their checkpoints were not on record as lost. If
            nothing else is left, they are candidates, and the chosen one is among them. Default ().
    """

    chosen: Candidate
    reason: Reason
    candidates: tuple[Candidate, ...]
    evaluations: int = 0
    lost: tuple[Key, ...] = ()

    @property
    def observation(self) -> Observation:
        """The chosen interval."""
        return self.chosen.observation

    def __str__(self) -> str:
        one, error = self.chosen.observation, self.chosen.standard_error
        scored = number(self.chosen.skill) + ("" if error is None else f" ± {number(error, 2)}")
        among = f"the best of {len(self.candidates)} candidates" if len(self.candidates) > 1 else "the only candidate"
        left = " whose checkpoint is left" if self.lost and one.key not in self.lost else ""
        why = {
            "evaluated": f"{scored} in {counted(self.evaluations, 'evaluation')}, {among}",
            "smoothed": f"{scored} after smoothing of noisy scores along its lineage, {among}",
            "score": f"{scored}, the best score{left}",
        }
        return f"member {one.member}, round {one.round}: {why[self.reason]}{self._told_lost()}"

    def _told_lost(self) -> str:
        """Return the end of the sentence, if checkpoints are lost."""
        if not self.lost:
            return ""
        if self.observation.key in self.lost:
            return "; its checkpoint is lost, as all others are"
        member, round_ = self.lost[0]
        one = f"the checkpoint of member {member}, round {round_} is"
        return f"; {one if len(self.lost) == 1 else f'{len(self.lost):,} checkpoints are'} lost"

    def to_record(self, history: History) -> dict[str, Any]:
        """Return plain values to record of an evaluation at the end of a history."""
        rows = [[*each.observation.key, each.skill, each.standard_error] for each in self.candidates]
        about = {"evaluations": self.evaluations, "observations": len(history)}
        return {"chosen": list(self.observation.key), "candidates": rows} | about


def choose_by_scores(history: Past, control: bool = False) -> Choice | None:
    """Choose by scores smoothed along lineages, as far as they are noise; None if no interval has completed."""
    if (best := history.best) is None:
        return None
    size = history.size or 1 + max(one.member for one in history[:])
    lasts = [own for member in range(size) if (own := history.last_completed(member)) is not None]
    held, gone = dict.fromkeys(one.key for one in (best, *lasts)), history.lost
    lost = tuple(key for key in held if key in gone)
    if len(lost) == len(held):  # A schedule without a checkpoint is better than nothing.
        gone = set()
    lasts = [one for one in lasts if one.key not in gone]
    kept = lasts if best.key in gone else [best, *lasts]
    recent = history[-size * min(WINDOW, max(3, MAX_OBSERVATIONS // size)) :]
    model = estimate(recent, history.sign, None)
    levels = {} if model is None else model.follow(recent)[0]

    def candidate(one: Observation) -> Candidate:
        if model is None:
            return Candidate(one, one.score)
        if one.key not in levels:
            levels.update(model.follow([*islice(history.ancestors(one), WINDOW)][::-1])[0])
        return Candidate(one, history.sign * levels[one.key])

    last = _best(map(candidate, lasts or kept), history.sign)
    ever = candidate(max(kept, key=lambda one: merit(one, history.sign)))
    found = [last, ever, *(candidate(one) for one in lasts if control and one.member == CONTROL)]
    distinct = tuple({each.observation.key: each for each in found}.values())
    if model is None:
        return Choice(ever, "score", distinct, lost=lost)
    luck = MARGIN * math.sqrt(model.noise(ever.observation))
    fell = history.sign * (ever.skill - last.skill) > luck
    return Choice(ever if fell else last, "smoothed", distinct, lost=lost)


def choose_by_evaluations(candidates: Sequence[Candidate], scores: FloatArray, sign: float) -> Choice | None:
    """Choose the best mean of scores, (candidates, evaluations); one that is not finite drops its candidate."""
    count = scores.shape[1]
    found = []
    for each, row in zip(candidates, scores, strict=True):
        if np.isfinite(row).all():
            spread = without_rounding(float(row.std(ddof=1)), float(abs(row).max())) if count > 1 else math.nan
            error = spread / math.sqrt(count) if count > 1 else None
            found.append(Candidate(each.observation, float(row.mean()), error))
    return Choice(_best(found, sign), "evaluated", tuple(found), count) if found else None


def read_choice(history: Past, record: Mapping[str, Any] | None, control: bool = False) -> Choice | None:
    """Return the choice on record or, without one of all of the history, by the scores; None if nothing completed."""
    if record is None or record["observations"] != len(history):
        return choose_by_scores(history, control)
    found = []
    for member, round_, skill, error in record["candidates"]:
        SKILL.check("the skill of a candidate", skill, HistoryError)
        SKILL.or_none().check("the standard error of a candidate", error, HistoryError)
        if (one := history.find((member, round_))) is not None:
            found.append(Candidate(one, skill, error))
    chosen = next((each for each in found if list(each.observation.key) == record["chosen"]), None)
    if chosen is None:
        raise HistoryError(f"an evaluation on record chooses one of its candidates, got {record['chosen']!r:.80}")
    whole(1).check("the number of evaluations", record["evaluations"], HistoryError)
    return Choice(chosen, "evaluated", tuple(found), record["evaluations"])


def _best(found: Iterable[Candidate], sign: float) -> Candidate:
    """Return the candidate of the greatest skill; of equal ones, the later round, then the higher member."""
    return max(found, key=lambda each: (sign * each.skill, each.observation.round, each.observation.member))
