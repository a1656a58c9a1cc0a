"""The global random generators of a process: whether code used them, which threads then share."""

import random
import sys
from collections.abc import Mapping
from contextlib import suppress

States = Mapping[str, object]
"""States of the global generators, by the name of their library."""


def read_states() -> States:
    """Return the states of the global generators of Python, NumPy and PyTorch; libraries not yet imported have none."""
    found: dict[str, object] = {"random": random.getstate()}
    if (numpy := sys.modules.get("numpy.random")) is not None:
        with suppress(AttributeError):  # It is being imported.
            state = numpy.get_state(legacy=False)
            found["numpy.random"] = (state["state"]["key"].tobytes(), state["state"]["pos"], state["has_gauss"])
    if (torch := sys.modules.get("torch")) is not None:
        with suppress(AttributeError, RuntimeError):  # It is being imported, or records a CUDA graph.
            found["torch"] = torch.get_rng_state().numpy().tobytes()
            if torch.cuda.is_initialized():
                found["torch.cuda"] = b"".join(each.numpy().tobytes() for each in torch.cuda.get_rng_state_all())
    return found


def used_since(before: States) -> list[str]:
    """List the libraries whose global generator was used or seeded since its state was read.

    >>> before = read_states()
    >>> _ = random.random()
    >>> used_since(before)
    ['random']
    """
    now = read_states()
    return [name for name, state in before.items() if name in now and now[name] != state]
