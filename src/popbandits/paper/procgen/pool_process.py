"""Pools in processes of their own.

The members of a population are threads that share a GPU, and Python runs one thread at a time: each time that a thread
has waited for anything, it waits once more, for its turn. So a member's thread does as little as possible during a
rollout. For each step it launches the network and then waits for the frames. Environments are stepped in another
process, which sees by itself when the GPU has written the actions to the memory that they share.

    python -m popbandits.paper.procgen.pool_process MEMORY SOCKET ENVIRONMENTS

is the other process. It ends when its socket is closed, and so also when the process that started it ends.
"""

import json
import select
import socket
import subprocess
import sys
import weakref
from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from popbandits.engines.spawning import spawning
from popbandits.errors import AgentError
from popbandits.paper.procgen.environments import Difficulty, Levels, Pool
from popbandits.paper.procgen.mailbox import Mailbox
from popbandits.typing import BoolArray

PLAY, STEPPED, OPENED = b"play ", b"stepped", b"opened"
LARGEST_MESSAGE = 65_536
SECONDS_TO_END = 10

SECONDS_AWAKE = 0.002
"""How long a process looks for actions without a pause: waking up takes as long as acting on an idle GPU."""
SECONDS_ASLEEP = 0.0001


class PoolProcess:
    """A process that steps the environments of a mailbox; `open` gives it new ones. It ends with this object."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        numbers = (mailbox.file, other.fileno(), mailbox.environments)
        with other, spawning({}):  # Ctrl-C is for the process that this one works for.
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, *map(str, numbers)], pass_fds=(mailbox.file, other.fileno())
            )
        self.close = weakref.finalize(self, _end, self._socket, self._process)
        """Call it to end the process before this object ends."""

    def open(self, game: str, levels: Levels, *, seed: int, difficulty: Difficulty, threads: int) -> None:
        """Start new episodes in new environments; their first frames are then in the mailbox."""
        settings = {"game": game, "seed": seed, "difficulty": difficulty, "threads": threads}
        self._send(json.dumps({"levels": asdict(levels), **settings}).encode())
        while self._wait() != OPENED:  # A rollout was interrupted.
            pass

    def play(self, steps: int) -> None:
        """Begin a rollout of this many steps; each begins as soon as the mailbox has its actions."""
        self._send(PLAY + str(steps).encode())

    def wait(self) -> tuple[npt.NDArray[np.float32], BoolArray]:
        """Wait for a step; return raw rewards and where an episode ended, until the next step."""
        self._wait()
        return self._mailbox.rewards, self._mailbox.ended

    def _send(self, message: bytes) -> None:
        try:
            self._socket.send(message)
        except OSError as error:
            raise self._ended() from error

    def _wait(self) -> bytes:
        try:
            answer = self._socket.recv(LARGEST_MESSAGE)
        except OSError as error:
            raise self._ended() from error
        if not answer:
            raise self._ended()
        if answer not in (STEPPED, OPENED):
            raise AgentError(f"environments could not be stepped: {answer.decode()}")
        return answer

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
    """Make pools and play rollouts as the messages say, until the other side closes the connection."""
    pool: Pool | None = None
    while message := connection.recv(LARGEST_MESSAGE):
        if message.startswith(PLAY):
            assert pool is not None, "open comes before a rollout"
            play(pool, mailbox, connection, int(message[len(PLAY) :]))
        else:
            if pool is not None:
                pool.close()
            pool = _make(mailbox.environments, **json.loads(message))
            pool.reset(mailbox.frames)
            connection.send(OPENED)
    if pool is not None:
        pool.close()


def play(pool: Pool, mailbox: Mailbox, connection: socket.socket, steps: int) -> None:
    """Step a pool with the actions of the mailbox, until a message interrupts the rollout."""
    mailbox.seconds[:] = 0
    for step in range(steps):
        start = perf_counter()
        if not wait_for_actions(mailbox, connection, step):
            return
        acted = perf_counter()
        mailbox.rewards[:], mailbox.ended[:] = pool.step(mailbox.actions, mailbox.frames)
        mailbox.seconds += acted - start, perf_counter() - acted
        connection.send(STEPPED)


def wait_for_actions(mailbox: Mailbox, connection: socket.socket, step: int) -> bool:
    """Wait for a step's actions; return whether they came, and no message or end of the connection before them."""
    patience = perf_counter() + SECONDS_AWAKE
    while mailbox.acted[0] != step:
        if perf_counter() > patience and select.select([connection], [], [], SECONDS_ASLEEP)[0]:
            return False
    return True


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
