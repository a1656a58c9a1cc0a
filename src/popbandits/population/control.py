"""The control: a member that trains with the start to the end, so that a run shows what tuning gained."""

import numpy as np

from popbandits.basics.settings import CONTROL
from popbandits.basics.typing import IntArray
from popbandits.history import History
from popbandits.selection import Picks
from popbandits.selection.selection import usable


def hold(picks: Picks, history: History, members: IntArray) -> Picks:
    """Let the control continue with its own weights and configuration; the worst other member is replaced for it.

    Others may still load the control's weights.

    Args:
        picks: What the selection picked.
        history: Observations before this decision.
        members: Members that were picked for.
    """
    rows = np.flatnonzero(members == CONTROL)
    if not len(rows):
        return picks
    (row,) = rows
    states = history.member_states()
    weights, config, explores = picks.weights.copy(), picks.config.copy(), picks.explores.copy()
    if explores[row] and (other := _worst_that_stays(picks, history, members)) is not None:
        weights[other], config[other], explores[other] = weights[row], config[row], True
    weights[row], config[row], explores[row] = usable(history, states.completed)[CONTROL], states.latest[CONTROL], False
    return Picks(weights, config, explores)


def _worst_that_stays(picks: Picks, history: History, members: IntArray) -> int | None:
    """Return the row of the worst member that continues as it is; None if there are none.

    The member that the control's place would load stays too: it is the best, unless nobody else is left.
    """
    states = history.member_states()
    staying = np.flatnonzero(~picks.explores & (members != CONTROL) & (picks.weights == states.latest[members]))
    source = picks.weights[members == CONTROL][0]
    staying = staying[picks.weights[staying] != source]
    if not len(staying):
        return None
    return int(staying[np.argmin(history.scores(picks.weights[staying]))])
