"""Memory that a learner shares with its environments, which may be stepped by another process."""

import os
import weakref
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from popbandits.paper.procgen.environments import FRAME, Frames
from popbandits.typing import BoolArray, FloatArray

NOBODY_ACTED = -1
ANONYMOUS = -1


class Mailbox:
    """Frames, actions, rewards and ends of a number of environments.

    Args:
        environments: Their number.
        file: File of a mailbox of another process; without it, the mailbox is new.
    """

    def __init__(self, environments: int, file: int | None = None) -> None:
        self.environments = environments
        frames, numbers = environments * int(np.prod(FRAME)), 3 * 8
        size = frames + numbers + environments * (4 + 4 + 1)
        self.file = _new_file(size) if file is None else file
        """Descriptor of the memory's file, for other processes."""
        if self.file != ANONYMOUS:
            weakref.finalize(self, os.close, self.file)
        self.memory: npt.NDArray[np.uint8] = np.frombuffer(mmap(self.file, size), np.uint8)
        """All of it."""
        begin = 0

        def array(dtype: type[Any], *shape: int) -> Any:
            nonlocal begin
            end = begin + int(np.prod(shape)) * np.dtype(dtype).itemsize
            made = self.memory[begin:end].view(dtype).reshape(shape)
            begin = end
            return made

        self.frames: Frames = array(np.uint8, environments, *FRAME)
        self.acted: npt.NDArray[np.int64] = array(np.int64, 1)
        """Step of a rollout that the actions are for; written after them."""
        self.seconds: FloatArray = array(np.float64, 2)
        """Time that the environments have waited for actions, and time that their steps took."""
        self.actions: npt.NDArray[np.int32] = array(np.int32, environments)
        self.rewards: npt.NDArray[np.float32] = array(np.float32, environments)
        self.ended: BoolArray = array(bool, environments)
        if file is None:
            self.acted[0] = NOBODY_ACTED


def _new_file(size: int) -> int:
    if not hasattr(os, "memfd_create"):  # Only Linux has it, and other processes are only used there.
        return ANONYMOUS
    file = os.memfd_create("popbandits-environments")
    os.truncate(file, size)
    return file
