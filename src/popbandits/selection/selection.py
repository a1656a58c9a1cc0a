"""The contract of a selection: what a member that begins an interval goes on with, from what happened so far.

For each such member a selection picks whose weights it loads, whose configuration it takes, and whether the explorer
changes that configuration. Everything it may use is in the history: `history.standing().finished` holds the round that
each member is about to begin, a member's number can name its sub-population (`mf_pbt`), and an observation without a
parent after round 0 is a restart (`ipbt`).

What picks cannot say: to go on from weights that are changed, such as IPBT's shrunk ones (0.2 w + 0.1 fresh). That
needs an agent that can shrink, one more array in `Picks`, and a field of `Assignment`.
"""

from dataclasses import dataclass, replace

import numpy as np

from popbandits.errors import ArgumentError
from popbandits.history import History, Observation
from popbandits.history.standing import NOWHERE
from popbandits.typing import BoolArray, IntArray


@dataclass(frozen=True)
class Picks:
    """What members go on with: arrays, an entry for each member that was asked about.

    Places are positions in the history, NOWHERE (-1) for none.

    Args:
        weights: Give the place whose checkpoint is loaded; NOWHERE for a fresh start. `checkpoints` of
            `popbandits.selection.selection` returns those there are.
        config: Give the place whose configuration is taken; NOWHERE only where a fresh start explores.
        explores: Say whether the explorer changes that configuration. In a fresh start it is asked with no parent.
    """

    weights: IntArray
    config: IntArray
    explores: BoolArray

    def __getitem__(self, rows: IntArray) -> "Picks":
        """Those of some rows."""
        return Picks(self.weights[rows], self.config[rows], self.explores[rows])

    def parent(self, row: int, history: History) -> Observation | None:
        """The parent that an explorer is asked with: the observation behind the weights, with the picked config."""
        weights, config = int(self.weights[row]), int(self.config[row])
        if weights == NOWHERE:
            return None
        return history[weights] if config == weights else replace(history[weights], config=history[config].config)


class Selection:
    """A way of selecting. A subclass defines `select` and, as a frozen dataclass, is recorded with a run.

    >>> class Loyal(Selection):
    ...     def select(self, history, members, rng):
    ...         return stay(history, members)
    """

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Pick what members go on with; each has finished an interval.

        A pure function of its arguments: no memory, no randomness but `rng`.

        Args:
            history: What happened before this decision; in synchronous runs it ends with a whole round.
            members: Numbers of the members to pick for: all in synchronous runs, one in asynchronous runs, where others
                may not have begun.
            rng: Generator to draw from.
        """
        raise NotImplementedError(f"{type(self).__name__} must define select")

    def planned(self, rounds: int) -> "Selection":
        """Return the selection for a run whose history does not know how long it is going to be.

        Args:
            rounds: Give the rounds that the run is going to have.
        """
        return self


def usable(history: History, places: IntArray) -> IntArray:
    """The places, with NOWHERE for those whose checkpoint was lost."""
    lost = [history.place(key) for key in history.lost]
    return np.where(np.isin(places, lost), NOWHERE, places) if lost else places


def checkpoints(history: History) -> IntArray:
    """Places whose weights can be loaded: every member's last completed interval, and the best one."""
    best = NOWHERE if history.best is None else history.place(history.best.key)
    places = usable(history, np.append(history.standing().completed, best))
    kept: IntArray = places[places != NOWHERE]
    return kept


def stay(history: History, members: IntArray) -> Picks:
    """Go on with what each member has; one whose last interval did not complete explores."""
    standing = history.standing()
    own = usable(history, standing.completed)[members]
    return Picks(own, own, own != standing.latest[members])


def start_afresh(members: IntArray) -> Picks:
    """Start with new weights and a configuration that the explorer draws."""
    nowhere = np.full(len(members), NOWHERE)
    return Picks(nowhere, nowhere, np.ones(len(members), dtype=np.bool_))


def check_picks(picks: object, history: History, members: IntArray, name: str) -> Picks:
    """The picks, if they keep the contract: a user's own selection is code like any other."""
    count = len(members)
    if not isinstance(picks, Picks) or [len(part) for part in vars(picks).values()] != [count] * 3:
        raise ArgumentError(f"{name} must return Picks for {count} members, got {picks!r}")
    wrong = ~np.isin(picks.weights, np.append(checkpoints(history), NOWHERE))
    if wrong.any():
        raise ArgumentError(
            f"{name} must pick weights that are kept, the last completed ones of a member or the best, "
            f"got place {picks.weights[wrong][0]}; choose among checkpoints(history)"
        )
    open_ = (picks.config == NOWHERE) & (picks.weights == NOWHERE) & picks.explores
    wrong = ~open_ & ((picks.config < 0) | (picks.config >= len(history)))
    if wrong.any():
        raise ArgumentError(
            f"{name} must pick configurations of the history, places 0 to {len(history) - 1}, "
            f"got place {picks.config[wrong][0]}; NOWHERE is for fresh starts that explore"
        )
    return picks
