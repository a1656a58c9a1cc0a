"""Evidence that scores accumulate, as a running total does: gains repeat, and the leaders pull away.

A score that is a running total tells early which configurations are good, and a model can learn from its changes. A
score that is a noisy level does neither: a lucky score is followed by a fall, and most of a change is noise. What kind
of score a run has shows after a few rounds. Over all pairs i, j of members in a round that kept their configuration,

    repeats = mean of sign(y_i - y_j) sign(y'_i - y'_j)     y the change, y' the change one round earlier     (acc-1)
    leads   = mean of sign(y_i - y_j) sign(s_i - s_j)       s the score before                                (acc-2)

Both are rank correlations within rounds (Kendall's tau), pooled over rounds: 1 for a noiseless total, negative for a
level with independent noise. Not from the paper; docs/default.md has the figures.
"""

import numpy as np

from popbandits.history import History
from popbandits.typing import FloatArray, IntArray

LOOKED_AT = 512
"""Number of last observations that are looked at; with more members than a quarter of it, evidence is never enough."""

ROUNDS = 3
"""Number of rounds with a pair to compare that evidence needs; fewer are as good as none."""


def accumulation(history: History) -> float:
    """Return the smaller of the two correlations, between -1 and 1; 0 while there is too little evidence."""
    rows = history.recent(LOOKED_AT)
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
    rounds, change = rows.round[kept], rows.change[kept]
    repeats = _concordance(rounds, rows.change[earlier[kept]], change)
    return min(repeats, _concordance(rounds, rows.before[kept], change))


def _concordance(rounds: IntArray, a: FloatArray, b: FloatArray) -> float:
    """Return the mean over pairs in the same round of sign(a_i - a_j) sign(b_i - b_j); 0 if too few rounds have one."""
    agreed = pairs = compared = 0
    for round_ in np.unique(rounds):
        here = rounds == round_
        i, j = np.triu_indices(int(here.sum()), 1)
        if len(i):
            agreed += int((np.sign(a[here][i] - a[here][j]) * np.sign(b[here][i] - b[here][j])).sum())
            pairs += len(i)
            compared += 1
    return agreed / pairs if compared >= ROUNDS else 0.0
