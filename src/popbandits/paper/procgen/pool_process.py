"""Pools in processes of their own.

The members of a population are threads that share a GPU, and Python runs one thread at a time. Stepping environments
takes more of Python's time than acting, so with four members that would be the limit. Here it is another process's
time, and the members' threads only act and wait. Frames, actions and results are in memory that both processes see.

    python -m popbandits.paper.procgen.pool_process MEMORY SOCKET ENVIRONMENTS

is the other process. It ends when its socket is closed, and so also when the process that started it ends.
"""

import json
import os
import socket
import subprocess
import sys
import weakref
from dataclasses import asdict
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from popbandits.engines.spawning import spawning
from popbandits.errors import AgentError
from popbandits.paper.procgen.environments import FRAME, Difficulty, Frames, Levels, Pool
from popbandits.typing import BoolArray

STEP, DONE = b"step", b"done"
LARGEST_MESSAGE = 65_536
SECONDS_TO_END = 10


class Mailbox:
    """Frames, actions, rewards and ends of a number of environments, in memory that processes can share."""

    def __init__(self, environments: int, file: int | None = None) -> None:
        self.environments = environments
        self.file = os.memfd_create("popbandits-environments") if file is None else file
        weakref.finalize(self, os.close, self.file)
        size = environments * (int(np.prod(FRAME)) + 4 + 4 + 1)
        if file is None:
            os.truncate(self.file, size)
        memory, begin = mmap(self.file, size), 0

        def array(dtype: type[Any], *shape: int) -> Any:
            nonlocal begin
            count = int(np.prod(shape))
            made = np.frombuffer(memory, dtype, count, begin).reshape(shape)
            begin += made.nbytes
            return made

        self.frames: Frames = array(np.uint8, environments, *FRAME)
        self.actions: npt.NDArray[np.int32] = array(np.int32, environments)
        self.rewards: npt.NDArray[np.float32] = array(np.float32, environments)
        self.ended: BoolArray = array(bool, environments)


class PoolProcess:
    """A process that steps the environments of a mailbox; `open` gives it new ones.

    It is used like a `Pool`, but frames are always written to the mailbox. It ends with this object.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        numbers = (mailbox.file, other.fileno(), mailbox.environments)
        with other, spawning({}):  # Ctrl-C is for the process that this one works for.
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, *map(str, numbers)], pass_fds=(mailbox.file, other.fileno())
            )
        self._unanswered = 0
        self.close = weakref.finalize(self, _end, self._socket, self._process)
        """Call it to end the process before this object ends."""

    def open(self, game: str, levels: Levels, *, seed: int, difficulty: Difficulty, threads: int) -> None:
        """Start new episodes in new environments; their first frames are then in the mailbox."""
        while self._unanswered:  # A rollout was interrupted.
            self._wait()
        settings = {"game": game, "seed": seed, "difficulty": difficulty, "threads": threads}
        self._send(json.dumps({"levels": asdict(levels), **settings}).encode())
        self._wait()

    def step(self, actions: npt.NDArray[np.int32], frames: Frames) -> tuple[npt.NDArray[np.float32], BoolArray]:
        """Step all environments; return raw rewards and where an episode ended, until the next step."""
        assert frames.ctypes.data == self._mailbox.frames.ctypes.data, "frames are written to the mailbox"
        self._mailbox.actions[:] = actions
        self._send(STEP)
        self._wait()
        return self._mailbox.rewards, self._mailbox.ended

    def _send(self, message: bytes) -> None:
        try:
            self._socket.send(message)
        except OSError as error:
            raise self._ended() from error
        self._unanswered += 1

    def _wait(self) -> None:
        try:
            answer = self._socket.recv(LARGEST_MESSAGE)
        except OSError as error:
            raise self._ended() from error
        if not answer:
            raise self._ended()
        self._unanswered -= 1
        if answer != DONE:
            raise AgentError(f"environments could not be stepped: {answer.decode()}")

    def _ended(self) -> AgentError:
        status = _end(self._socket, self._process)
        return AgentError(f"the process of the environments ended, with status {status}")


def _end(connection: socket.socket, process: "subprocess.Popen[bytes]") -> int:
    """End a process by closing its connection, or kill it if that does not help; return its status."""
    connection.close()
    try:
        return process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def serve(mailbox: Mailbox, connection: socket.socket) -> None:
    """Make pools and step them as the messages say, until the other side closes the connection."""
    pool: Pool | None = None
    while message := connection.recv(LARGEST_MESSAGE):
        if message == STEP:
            assert pool is not None, "open comes before a step"
            mailbox.rewards[:], mailbox.ended[:] = pool.step(mailbox.actions, mailbox.frames)
        else:
            if pool is not None:
                pool.close()
            pool = _make(mailbox.environments, **json.loads(message))
            pool.reset(mailbox.frames)
        connection.send(DONE)
    if pool is not None:
        pool.close()


def _make(size: int, *, levels: dict[str, int], **settings: Any) -> Pool:
    return Pool(levels=Levels(**levels), size=size, **settings)


def main() -> None:
    """Serve until the connection ends; answer with the error if something fails."""
    memory, connection, environments = map(int, sys.argv[1:])
    with socket.socket(fileno=connection) as opened:
        try:
            serve(Mailbox(environments, memory), opened)
        except ConnectionError:  # The other side ended in the middle of a step.
            pass
        except Exception as error:
            opened.send(f"{type(error).__name__}: {error}".encode()[:LARGEST_MESSAGE])
            raise


if __name__ == "__main__":
    main()
