"""Lanes of a device: members of a lane update one after another, those of different lanes at the same time.

All members of a GPU at the same time would slow each other down, end together and then leave it idle while they step
their environments. Only one at a time would leave multiprocessors idle wherever a kernel is small, begins or ends: some
fifty times in a minibatch.
"""

from collections import defaultdict
from threading import Lock
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import torch

LANES = 2
"""Most updates of a device at the same time."""
MEMBERS_OF_A_LANE = 4
"""Members for whom one lane is enough: they step their environments for most of the time."""


class Lane:
    """What the members of a lane share."""

    def __init__(self) -> None:
        self.turn = Lock()
        """Lock to hold during an update."""
        self.workspaces: WeakValueDictionary[int, Any] = WeakValueDictionary()
        """Activations and gradients of an update by its number of images, as long as a member uses them."""
        self.members: WeakSet[Any] = WeakSet()


_LANES: defaultdict[torch.device, list[Lane]] = defaultdict(list)
_CHOOSING = Lock()


def join_lane(member: object, device: torch.device) -> Lane:
    """Return a lane of a device, which counts the member as long as it lives.

    It is the first with fewer than `MEMBERS_OF_A_LANE`, else a new one, and when there are `LANES` the one with fewest.
    """
    place = torch.empty(0, device=device).device  # With its index.
    with _CHOOSING:
        lanes = _LANES[place] = [each for each in _LANES[place] if each.members]
        lane = next((each for each in lanes if len(each.members) < MEMBERS_OF_A_LANE), None)
        if lane is None and len(lanes) < LANES:
            lanes.append(lane := Lane())
        lane = lane or min(lanes, key=lambda each: len(each.members))
        lane.members.add(member)
        return lane
