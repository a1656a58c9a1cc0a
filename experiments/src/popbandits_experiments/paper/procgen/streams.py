"""Streams of a GPU that no two members share.

A member launches steps ahead of their frames, and its stream waits for these. A GPU has at most 32 queues; streams that
are made in excess share them, and behind a stream that waits nothing in its queue goes on. PyTorch keeps 32 streams of
each of four priorities and hands them out in turn, so who shares a queue, or even a stream, would be a matter of luck.
Here a stream is made when a member needs one, and passed on when the member is gone. Two streams a member and the
default one fit in 32 queues for up to 15 members.
"""

import weakref
from collections import defaultdict

import torch

from popbandits_experiments.paper.procgen.compiled import DriverError, NoCompiler, make_stream

_FREE: defaultdict[tuple[torch.device, int], list["torch.cuda.Stream"]] = defaultdict(list)
"""Streams by device and priority whose owners are gone. They are never destroyed, since graphs may hold them."""


def own_stream(owner: object, device: torch.device, priority: int) -> "torch.cuda.Stream | None":
    """Return a stream that nobody else gets as long as the owner lives; None on a device without streams."""
    if device.type != "cuda":
        return None
    place = torch.empty(0, device=device).device  # With its index.
    free = _FREE[place, priority]
    try:
        stream = free.pop()
    except IndexError:
        try:
            stream = torch.cuda.ExternalStream(make_stream(place.index, priority), device=place)  # type: ignore[no-untyped-call]
        except (NoCompiler, DriverError):
            return torch.cuda.Stream(place, priority=priority)  # type: ignore[no-untyped-call]
    weakref.finalize(owner, free.append, stream)
    return stream
