"""Pools in processes of their own.

The members of a population are threads that share a GPU, and Python runs one thread at a time: each time that a thread
has waited for anything, it waits once more, for its turn. So nothing of a step is left to a member's thread. It
launches the network for several steps ahead. For each of them the GPU waits until the frames are in memory that is
shared with another process, which steps the environments as soon as the GPU has written the actions to that memory.

    python -m popbandits_experiments.paper.procgen.pool_process MEMORY SOCKET ENVIRONMENTS STEPS

is the other process. It ends when its socket is closed, and so also when the process that started it ends.
"""

import json
import select
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any

from popbandits.engines.spawning import spawning
from popbandits.errors import AgentError
from popbandits_experiments.paper.procgen.environments import Difficulty, Levels
from popbandits_experiments.paper.procgen.level_pool import LevelPool
from popbandits_experiments.paper.procgen.mailbox import Mailbox
from popbandits_experiments.paper.procgen.reserve_pool import ReservePool

LARGEST_MESSAGE = 65_536
SECONDS_TO_END = 10

SECONDS_AWAKE = 0.002
"""Time for which a process looks for actions without a pause: waking up takes as long as acting on an idle GPU."""
SECONDS_ASLEEP = 0.0001
"""Time for which it sleeps after that before it looks again."""


class PoolProcess:
    """A process that steps the environments of a mailbox; `open` gives it new ones. It ends with this object."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._asked = 0
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        numbers = (mailbox.file, other.fileno(), mailbox.environments, mailbox.steps)
        # Both signals are for the process that this one works for, though a cluster sends SIGTERM to both.
        with other, spawning({}, blocked=(signal.SIGINT, signal.SIGTERM)):
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, *map(str, numbers)], pass_fds=(mailbox.file, other.fileno())
            )
        self.close = weakref.finalize(self, _end, self._socket, self._process, mailbox.give_up)
        """Call it to end the process before this object ends."""

    def open(
        self,
        game: str,
        levels: Levels,
        *,
        seed: int,
        difficulty: Difficulty,
        threads: int,
        chosen: Sequence[int] = (),
    ) -> None:
        """Start new episodes in new environments; their first frames are then in the mailbox.

        The environments draw their levels, by the seed; or they play those in `chosen`, see `choose`.
        """
        settings = {"game": game, "seed": seed, "difficulty": difficulty, "threads": threads}
        self._ask("open", levels=asdict(levels), chosen=chosen, **settings)
        self.wait()

    def choose(self, levels: Sequence[int]) -> None:
        """Choose the levels of the next episodes; see `LevelPool.choose`."""
        self._ask("choose", levels=levels)
        self.wait()

    def play(self, every: int) -> None:
        """Begin a rollout, each of whose steps begins as soon as the mailbox has its actions.

        Args:
            every: Number of steps that `wait` waits for; fewer at the end if they are not a multiple of it.
        """
        self._ask("play", every=every)

    def stop(self) -> None:
        """End a rollout before its last step; nobody waits for its frames any more."""
        self._ask("stop")
        self.wait()

    def wait(self) -> None:
        """Wait for what was asked last: `open`, or the next steps, whose rewards and ends are then in the mailbox."""
        while (answer := self._receive()) != str(self._asked):
            if not answer.isdecimal():
                self._end()
                raise AgentError(f"environments could not be stepped: {answer}")

    def _ask(self, what: str, **how: Any) -> None:
        """Send a message with a number, which its answers repeat: somebody may have been interrupted while waiting."""
        self._asked += 1
        try:
            self._socket.send(json.dumps({"number": self._asked, "what": what, **how}).encode())
        except OSError as error:
            raise self._ended() from error

    def _receive(self) -> str:
        try:
            answer = self._socket.recv(LARGEST_MESSAGE)
        except OSError as error:
            raise self._ended() from error
        if not answer:
            raise self._ended()
        return answer.decode()

    def _end(self) -> int:
        return _end(self._socket, self._process, self._mailbox.give_up)

    def _ended(self) -> AgentError:
        return AgentError(f"the process of the environments ended, with status {self._end()}")


def _end(connection: socket.socket, process: "subprocess.Popen[bytes]", give_up: Callable[[], None]) -> int:
    """End a process by closing its connection, or kill it if that does not help; return its status."""
    connection.close()
    try:
        return process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        give_up()


def serve(mailbox: Mailbox, connection: socket.socket) -> None:
    """Make pools and play rollouts as the messages say, until the other side closes the connection."""
    pool: ReservePool | LevelPool | None = None
    while message := connection.recv(LARGEST_MESSAGE):
        how = json.loads(message)
        what, number = how.pop("what"), str(how.pop("number")).encode()
        if what == "play":
            assert pool is not None, "open comes before a rollout"
            play(pool, mailbox, connection, number, **how)
            continue
        if what == "open":
            if pool is not None:
                pool.close()
            pool = _make(mailbox.environments, **how)
            pool.reset(mailbox.frames)
        if what == "choose":
            assert isinstance(pool, LevelPool), "only levels that were chosen first can be chosen later"
            pool.choose(how["levels"])
        connection.send(number)
    if pool is not None:
        pool.close()


def play(pool: ReservePool | LevelPool, mailbox: Mailbox, connection: socket.socket, number: bytes, every: int) -> None:
    """Step a pool with the actions of the mailbox for a rollout, or until a message or an end interrupts it."""
    mailbox.seconds[:] = 0
    for step in range(mailbox.steps):
        start = perf_counter()
        if not wait_for_actions(mailbox, connection, step):
            mailbox.give_up()
            return
        acted = perf_counter()
        mailbox.levels[step] = pool.level_seeds
        mailbox.rewards[step], mailbox.ended[step] = pool.step(mailbox.actions, mailbox.frames)
        mailbox.announce(step + 1)
        mailbox.seconds += acted - start, perf_counter() - acted
        if (step + 1) % every == 0 or step + 1 == mailbox.steps:
            connection.send(number)


def wait_for_actions(mailbox: Mailbox, connection: socket.socket, step: int) -> bool:
    """Wait for a step's actions; return whether they came, and no message or end of the connection before them."""
    patience = perf_counter() + SECONDS_AWAKE
    while mailbox.acted[0] != step:
        if perf_counter() > patience and select.select([connection], [], [], SECONDS_ASLEEP)[0]:
            return False
    return True


def _make(
    size: int, *, levels: dict[str, int], chosen: Sequence[int], seed: int, **settings: Any
) -> ReservePool | LevelPool:
    if not chosen:
        return ReservePool(levels=Levels(**levels), size=size, seed=seed, **settings)
    pool = LevelPool(levels=Levels(**levels), size=size, **settings)
    pool.choose(chosen)
    return pool


def main() -> None:
    """Serve until the connection ends; answer with the error if something fails."""
    memory, connection, environments, steps = map(int, sys.argv[1:])
    mailbox = Mailbox(environments, steps, memory)
    with socket.socket(fileno=connection) as opened:
        try:
            serve(mailbox, opened)
        except ConnectionError:  # The other side ended in the middle of a step.
            pass
        except Exception as error:
            opened.send(f"{type(error).__name__}: {error}".encode()[:LARGEST_MESSAGE])
            raise
        finally:
            mailbox.give_up()


if __name__ == "__main__":
    main()
