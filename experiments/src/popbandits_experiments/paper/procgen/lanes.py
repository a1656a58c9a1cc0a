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
"""Updates of a GPU at the same time."""


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
    """Return the lane of a device with the fewest members, and count another one there as long as it lives."""
    with _CHOOSING:
        lanes = _LANES[device]
        if len(lanes) < LANES:
            lanes.append(Lane())
        lane = min(lanes, key=lambda each: len(each.members))
        lane.members.add(member)
        return lane
