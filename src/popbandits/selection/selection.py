"""The contract of a selection: it picks what each member begins its next interval with.

For each such member a selection picks the weights to load, the configuration to take, and whether the explorer changes
that configuration. It may use only the history: `history.member_states().finished` holds the round that each member is
about to begin, a member's number can name its sub-population (as in MF-PBT), and an observation without a parent
after round 0 is a restart (as in IPBT).

Picks cannot ask for changed weights, such as IPBT's shrunk ones (0.2 w + 0.1 fresh). That would need an agent that can
shrink, one more array in `Picks`, and a field of `Assignment`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from popbandits.basics.typing import BoolArray, IntArray
from popbandits.errors import ArgumentError
from popbandits.history import History, Observation
from popbandits.history.memory import NO_INDEX


@dataclass(frozen=True)
class Picks:
    """What members continue with: arrays with one entry for each member to pick for.

    Indices point into the history; NO_INDEX (-1) for none.

    Args:
        weights: Indices of the observations whose checkpoints are loaded; NO_INDEX for a fresh start. `checkpoints` of
            `popbandits.selection.selection` returns the available ones.
        config: Indices of the observations whose configurations are taken; NO_INDEX only if a fresh start explores.
        explores: Whether the explorer changes that configuration. For a fresh start it gets no parent.
    """

    weights: IntArray
    config: IntArray
    explores: BoolArray

    def __getitem__(self, rows: IntArray) -> "Picks":
        """Return the picks of some rows."""
        return Picks(self.weights[rows], self.config[rows], self.explores[rows])

    def parent(self, row: int, history: History) -> Observation | None:
        """Return the parent for the explorer: the observation of the weights, with the picked configuration."""
        weights, config = int(self.weights[row]), int(self.config[row])
        if weights == NO_INDEX:
            return None
        return history[weights] if config == weights else replace(history[weights], config=history[config].config)


class Selection:
    """Base class of selections. A subclass defines `select` and, as a frozen dataclass, is recorded with a run.

    >>> class Loyal(Selection):
    ...     def select(self, history, members, rng):
    ...         return stay(history, members)
    """

    earlier: ClassVar[Mapping[str, Any]] = {}
    """Former values of settings that older records lack, so that a run on record goes on as it began."""

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Pick what members continue with; each has finished an interval.

        A pure function of its arguments: no memory, no randomness except `rng`.

        Args:
            history: Observations before this decision; in synchronous runs it ends with a whole round.
            members: Numbers of the members to pick for: all in synchronous runs, one in asynchronous runs, where others
                may not have begun.
            rng: Generator to draw from.
        """
        raise NotImplementedError(f"{type(self).__name__} must define select")

    def planned(self, rounds: int) -> "Selection":
        """Return the selection for a run whose length is not in its history.

        Args:
            rounds: Number of rounds of the run.
        """
        return self


def usable(history: History, indices: IntArray) -> IntArray:
    """Return the indices, with NO_INDEX for those whose checkpoint was lost."""
    lost = [history.index_of(key) for key in history.lost]
    return np.where(np.isin(indices, lost), NO_INDEX, indices) if lost else indices


def checkpoints(history: History) -> IntArray:
    """Return the indices whose weights can be loaded: every member's last completed interval, and the best one."""
    best = NO_INDEX if history.best is None else history.index_of(history.best.key)
    indices = usable(history, np.append(history.member_states().completed, best))
    available: IntArray = indices[indices != NO_INDEX]
    return available


def stay(history: History, members: IntArray) -> Picks:
    """Let each member continue with its own weights; one whose last interval did not complete explores."""
    states = history.member_states()
    own = usable(history, states.completed)[members]
    return Picks(own, own, own != states.latest[members])


def start_afresh(members: IntArray) -> Picks:
    """Start members with new weights and a configuration from the explorer."""
    nowhere = np.full(len(members), NO_INDEX)
    return Picks(nowhere, nowhere, np.ones(len(members), dtype=np.bool_))


def check_picks(picks: object, history: History, members: IntArray, name: str) -> Picks:
    """Return the picks if they follow the contract, which a user's selection may break; else raise ArgumentError."""
    count = len(members)
    if not isinstance(picks, Picks) or [len(part) for part in vars(picks).values()] != [count] * 3:
        raise ArgumentError(f"{name} must return Picks for {count} members, got {picks!r}")
    wrong = ~np.isin(picks.weights, np.append(checkpoints(history), NO_INDEX))
    if wrong.any():
        raise ArgumentError(
            f"{name} must pick weights that are kept, the last completed ones of a member or the best, "
            f"got index {picks.weights[wrong][0]}; choose among checkpoints(history)"
        )
    open_ = (picks.config == NO_INDEX) & (picks.weights == NO_INDEX) & picks.explores
    wrong = ~open_ & ((picks.config < 0) | (picks.config >= len(history)))
    if wrong.any():
        raise ArgumentError(
            f"{name} must pick configurations of the history, indices 0 to {len(history) - 1}, "
            f"got index {picks.config[wrong][0]}; NO_INDEX is for fresh starts that explore"
        )
    return picks
