"""The agents' network with few channels: every line of it runs, on a fraction of the arithmetic."""

from collections.abc import Callable
from math import prod
from typing import Any

from popbandits_experiments.paper.procgen import network

CHANNELS = (network.FRAME[0], 2, 3, 4)


def narrow(put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Build networks with few channels from now on, in this process; `put` may be a monkeypatch's `setattr`."""
    put(network, "CHANNELS", CHANNELS)
    put(network, "FEATURES", CHANNELS[-1] * 8**2)
    put(network, "SHAPES", network._shapes())
    put(network, "SIZES", [prod(shape) for shape in network.SHAPES])
    put(network, "TRUNK_SIZE", sum(network.SIZES[: -network.HEAD_TENSORS]))
