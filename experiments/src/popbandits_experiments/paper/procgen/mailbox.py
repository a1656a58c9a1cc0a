"""Memory that a learner shares with its environments, which may be stepped by another process."""

import os
import weakref
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from popbandits.basics.typing import BoolArray, FloatArray
from popbandits_experiments.paper.procgen.environments import FRAME, Frames

NOBODY_ACTED = -1
NO_MORE_FRAMES = 2**31 - 1
ANONYMOUS = -1


class Mailbox:
    """Frames and actions of environments, and their rewards and ends in a rollout.

    Args:
        environments: Number of environments.
        steps: Steps of a rollout.
        file: File of a mailbox of another process; without it, the mailbox is new.
    """

    def __init__(self, environments: int, steps: int, file: int | None = None) -> None:
        self.environments, self.steps = environments, steps
        frames, numbers = environments * int(np.prod(FRAME)), 4 * 8 + 4
        size = frames + numbers + environments * 4 + environments * steps * (4 + 4 + 1)
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
        self.row: npt.NDArray[np.int64] = array(np.int64, 1)
        """Row of the rollout that the frames belong to."""
        self.acted: npt.NDArray[np.int64] = array(np.int64, 1)
        """Row that the actions belong to; written after them."""
        self.seconds: FloatArray = array(np.float64, 2)
        """Time that the environments waited for actions in a rollout, and time that their steps took."""
        self.ready: npt.NDArray[np.int32] = array(np.int32, 1)
        """Row whose frames are complete; written after them. A GPU waits for it."""
        self.actions: npt.NDArray[np.int32] = array(np.int32, environments)
        self.rewards: npt.NDArray[np.float32] = array(np.float32, steps, environments)
        self.levels: npt.NDArray[np.int32] = array(np.int32, steps, environments)
        """Level of the episode that each step belongs to."""
        self.ended: BoolArray = array(bool, steps, environments)
        if file is None:
            self.begin()

    def begin(self) -> None:
        """Begin a rollout with the frames that are there."""
        self.acted[0] = NOBODY_ACTED
        self.announce(0)

    def announce(self, row: int) -> None:
        """Tell that the frames of a row are complete."""
        self.row[0] = row
        self.ready[0] = row

    def give_up(self) -> None:
        """Let nobody wait for frames that will not come."""
        self.ready[0] = NO_MORE_FRAMES


def _new_file(size: int) -> int:
    if not hasattr(os, "memfd_create"):  # Only Linux has it, and other processes are only used there.
        return ANONYMOUS
    file = os.memfd_create("popbandits-environments")
    os.truncate(file, size)
    return file
