"""Evidence that scores accumulate, as a running total does: gains are steady, and the leaders pull away.

A score that is a running total tells early which configurations are good, and a model can learn from its changes. A
score that is a noisy level does neither: a lucky score is followed by a fall, and most of a change is noise. What kind
of score a run has shows after a few rounds, in members that kept their configuration for two of them:

    steadiness = mean of 1 - |y - y'| / (|y| + |y'|)        y the change, y' the change one round earlier     (acc-1)
    leads      = mean of sign(y_i - y_j) sign(s_i - s_j)    s the score before, over pairs i, j of a round    (acc-2)

Steadiness is 1 where every gain repeats and 0 where a fall follows every gain; `CHANCE` is that of independent normal
changes, and a level with independent noise has less. Its excess over chance is taken, as a share of the most it can be.
Leads is a rank correlation within rounds (Kendall's tau), negative for a level with independent noise. Both are 1 for
a noiseless total. Not from the paper; docs/default.md has the figures.

In asynchronous runs a round is a number, not a time: pairs are intervals of the same round number, whenever they ran,
so a fast member is compared with the others once they have come as far. Members too far apart for a common round among
the last observations give no evidence.
"""

import math

import numpy as np

from popbandits.basics.typing import FloatArray, IntArray
from popbandits.history import History

EVIDENCE_WINDOW = 512
"""Number of last observations that are looked at; with more members than a quarter of it, evidence is never enough."""

MIN_ROUNDS = 3
"""Number of rounds with a pair to compare that evidence needs; fewer are as good as none."""

CHANCE = 0.5 - math.log(2) / math.pi
"""Steadiness of independent normal changes, whatever their scale: 0.28."""


def accumulation(history: History) -> float:
    """Return the smaller of the two marks, at most 1; 0 while there is too little evidence."""
    rows = history.recent(EVIDENCE_WINDOW)
    if not len(rows):
        return 0.0
    known = np.isfinite(rows.change) & ~rows.guessed
    # The row of the same member one round earlier, found by a number for each (member, round).
    keys = rows.member * (int(rows.round.max()) + 2) + rows.round
    order = np.argsort(keys)
    earlier = order[np.searchsorted(keys, keys - 1, sorter=order)]
    x, h = rows.points.x, rows.points.h
    same = (x == x[earlier]) | (np.isnan(x) & np.isnan(x[earlier]))
    kept = (keys[earlier] == keys - 1) & known & known[earlier] & same.all(axis=1) & (h == h[earlier]).all(axis=1)
    change = rows.change[kept]
    leads = _concordance(rows.round[kept], rows.before[kept], change)
    return 0.0 if leads is None else min(leads, _steadiness(rows.change[earlier[kept]], change))


def _steadiness(before: FloatArray, now: FloatArray) -> float:
    """Return the steadiness of changes above chance, as a share of the most it can be; two changes of 0 have none."""
    size = np.abs(now) + np.abs(before)
    share = np.divide(np.abs(now - before), size, out=np.ones_like(size), where=size > 0)
    return float((1 - share.mean() - CHANCE) / (1 - CHANCE))


def _concordance(rounds: IntArray, a: FloatArray, b: FloatArray) -> float | None:
    """Return the mean over pairs in the same round of sign(a_i - a_j) sign(b_i - b_j); None if few rounds have one."""
    agreed = pairs = compared = 0
    for round_ in np.unique(rounds):
        here = rounds == round_
        i, j = np.triu_indices(int(here.sum()), 1)
        if len(i):
            agreed += int((np.sign(a[here][i] - a[here][j]) * np.sign(b[here][i] - b[here][j])).sum())
            pairs += len(i)
            compared += 1
    return agreed / pairs if compared >= MIN_ROUNDS else None
