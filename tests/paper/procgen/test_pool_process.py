"""Environments in processes of their own, which are real ones here."""

import gc
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from popbandits.errors import AgentError
from popbandits.paper.procgen import agent as agent_module
from popbandits.paper.procgen.agent import DrAC, Settings
from popbandits.paper.procgen.environments import ACTIONS, LEVELS, Difficulty, Pool
from popbandits.paper.procgen.learner import Sizes
from popbandits.paper.procgen.pool_process import Mailbox, PoolProcess
from tests.paper.procgen.narrow import narrow

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared by memfd_create, which Linux has")

GAME = "fruitbot"
DIFFICULTY: Difficulty = "hard"  # Episodes are short, and have rewards.
SIZE = 5
FIRST, SECOND = slice(0, 2), slice(2, SIZE)
SECONDS = 20


def start(process: PoolProcess, seed: int, game: str = GAME) -> None:
    process.open(game, LEVELS["train"], seed=seed, difficulty=DIFFICULTY, threads=1)


def play(seed: int) -> Pool:
    return Pool(GAME, LEVELS["train"], size=3, seed=seed, difficulty=DIFFICULTY, threads=1)


def is_gone(pid: int) -> bool:
    """Wait until a process, of whatever parent, has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], SECONDS)[0])
    finally:
        os.close(handle)


@pytest.fixture(scope="module")
def mailbox() -> Mailbox:
    return Mailbox(SIZE)


@pytest.fixture(scope="module")
def process(mailbox: Mailbox) -> Iterator[PoolProcess]:
    """A process for tests that do not end it: starting one takes seconds."""
    process = PoolProcess(mailbox, SECOND)
    yield process
    process.close()


@pytest.fixture
def mortal(mailbox: Mailbox) -> Iterator[PoolProcess]:
    process = PoolProcess(mailbox, SECOND)
    yield process
    process.close()


def test_a_process_plays_what_a_pool_plays(mailbox: Mailbox, process: PoolProcess) -> None:
    pool, expected = play(7), np.zeros((3, 3, 64, 64), np.uint8)
    pool.reset(expected)
    start(process, 7)
    seen, rng, ends, earned = mailbox.frames[SECOND], np.random.default_rng(0), 0, 0.0
    assert np.array_equal(seen, expected)
    for _ in range(300):
        actions = rng.integers(ACTIONS, size=3).astype(np.int32)
        process.send(actions)
        rewards, ended = process.finish(seen)
        their_rewards, their_ended = pool.step(actions, expected)
        assert np.array_equal(seen, expected)
        assert rewards.tolist() == their_rewards.tolist()
        assert ended.tolist() == their_ended.tolist()
        ends += int(ended.sum())
        earned += float(np.abs(rewards).sum())
    pool.close()
    assert ends > 3
    assert earned > 0


def test_parts_of_a_mailbox_do_not_touch_each_other(mailbox: Mailbox, process: PoolProcess) -> None:
    other = PoolProcess(mailbox, FIRST)
    everything = (mailbox.frames, mailbox.actions, mailbox.rewards, mailbox.ended)

    def bytes_of(part: slice) -> list[bytes]:
        return [array[part].tobytes() for array in everything]

    for array in everything:
        array.view(np.uint8)[:] = 1
    for mine, own, others in ((process, SECOND, FIRST), (other, FIRST, SECOND)):
        untouched, before = bytes_of(others), bytes_of(own)
        start(mine, 3)
        for _ in range(20):
            mine.send(np.full(own.stop - own.start, 3, np.int32))
            mine.finish(mailbox.frames[own])
        assert bytes_of(others) == untouched
        assert all(now != then for now, then in zip(bytes_of(own), before, strict=True))
    other.close()


def test_opening_again_gives_new_environments(mailbox: Mailbox, process: PoolProcess) -> None:
    seen = []
    for seed in (1, 2, 1):
        start(process, seed)
        seen.append(mailbox.frames[SECOND].copy())
        process.send(np.zeros(3, np.int32))
        process.finish(mailbox.frames[SECOND])
    assert np.array_equal(seen[0], seen[2])
    assert not np.array_equal(seen[0], seen[1])


def test_a_step_that_nobody_waited_for_does_not_answer_for_another(mailbox: Mailbox, process: PoolProcess) -> None:
    start(process, 1)
    first = mailbox.frames[SECOND].copy()
    process.send(np.zeros(3, np.int32))
    start(process, 1)
    assert np.array_equal(mailbox.frames[SECOND], first)
    process.send(np.zeros(3, np.int32))
    process.finish(mailbox.frames[SECOND])
    pool, expected = play(1), np.zeros_like(first)
    pool.reset(expected)
    pool.step(np.zeros(3, np.int32), expected)
    pool.close()
    assert np.array_equal(mailbox.frames[SECOND], expected)


def test_frames_are_only_written_to_the_mailbox(mailbox: Mailbox, process: PoolProcess) -> None:
    start(process, 1)
    process.send(np.zeros(3, np.int32))
    with pytest.raises(AssertionError, match="frames are written to the mailbox"):
        process.finish(mailbox.frames[FIRST])


def test_a_killed_process_is_reported_with_its_status(mailbox: Mailbox, mortal: PoolProcess) -> None:
    start(mortal, 1)
    mortal.send(np.zeros(3, np.int32))
    mortal.finish(mailbox.frames[SECOND])
    os.kill(mortal._process.pid, signal.SIGKILL)
    message = "the process of the environments ended, with status -9"

    def step() -> None:
        mortal.send(np.zeros(3, np.int32))
        mortal.finish(mailbox.frames[SECOND])

    with pytest.raises(AgentError, match=message):  # Whether sending or waiting finds it out.
        step()
    with pytest.raises(AgentError, match=message):
        start(mortal, 1)


def test_environments_that_cannot_be_made_are_reported_with_the_reason(mortal: PoolProcess) -> None:
    with pytest.raises(AgentError, match="ArgumentError: game must be one of Procgen's, got 'pong'; choose from"):
        start(mortal, 1, "pong")
    with pytest.raises(AgentError, match="the process of the environments ended, with status 1"):
        start(mortal, 1)


@pytest.mark.parametrize("opened", [False, True])
def test_a_process_ends_when_it_is_closed(mortal: PoolProcess, opened: bool) -> None:
    if opened:
        start(mortal, 1)
        mortal.send(np.zeros(3, np.int32))  # Also in the middle of a step.
    mortal.close()
    assert mortal._process.returncode == 0
    mortal.close()  # Nothing happens.


def test_a_process_ends_and_files_are_closed_with_the_last_that_uses_them() -> None:
    Mailbox(SIZE)  # Python's helper for processes has been started.
    PoolProcess(Mailbox(SIZE), FIRST).close()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    mailbox = Mailbox(SIZE)
    process: PoolProcess | None = PoolProcess(mailbox, FIRST)
    assert process is not None
    start(process, 1)
    popen, frames = process._process, mailbox.frames
    del process, mailbox
    assert popen.returncode == 0
    assert frames.any()  # They stay as long as they are used.
    del frames, popen
    assert len(os.listdir("/proc/self/fd")) == before


PARENT = """
import sys
import numpy as np
from popbandits.paper.procgen.environments import LEVELS
from popbandits.paper.procgen.pool_process import Mailbox, PoolProcess

mailbox = Mailbox(2)
process = PoolProcess(mailbox, slice(0, 2))
print(process._process.pid, flush=True)
opened = False
while True:
    try:
        sys.stdin.readline()
        if not opened:
            process.open("bossfight", LEVELS["train"], seed=0, difficulty="easy", threads=1)
            opened = True
        process.send(np.zeros(2, np.int32))
        process.finish(mailbox.frames)
        print("stepped", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.fixture
def parent() -> Iterator["subprocess.Popen[str]"]:
    """A process that steps its environments once for every line that it reads, in a group of its own."""
    command = [sys.executable, "-c", PARENT]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as parent:
        yield parent
        parent.kill()


def said(parent: "subprocess.Popen[str]") -> str:
    assert parent.stdout is not None
    return parent.stdout.readline().strip()


def ask(parent: "subprocess.Popen[str]") -> str:
    assert parent.stdin is not None
    parent.stdin.write("\n")
    parent.stdin.flush()
    return said(parent)


@pytest.mark.parametrize("stepping", [False, True])
def test_a_process_ends_when_its_parent_is_killed(parent: "subprocess.Popen[str]", stepping: bool) -> None:
    child = int(said(parent))
    if stepping:
        assert ask(parent) == "stepped"
    parent.kill()
    assert is_gone(child)


def test_an_interrupt_is_left_to_the_parent(parent: "subprocess.Popen[str]") -> None:
    said(parent)
    os.killpg(parent.pid, signal.SIGINT)  # Also while the child is still starting.
    assert said(parent) == "interrupted"
    assert ask(parent) == "stepped"
    os.killpg(parent.pid, signal.SIGINT)
    assert said(parent) == "interrupted"
    assert ask(parent) == "stepped"


SIZES = Sizes(environments=SIZE, steps=16, epochs=1, minibatches=2)
SETTINGS = Settings(GAME, DIFFICULTY, interval=SIZES.rollout, sizes=SIZES, threads=1)
CONFIG = {"lr": 5e-4, "clip": 0.2, "entropy": 0.01, "alpha": 0.1, "augmentation": "crop"}


def train() -> tuple[dict[str, torch.Tensor], str, DrAC]:
    """Train for two intervals; return the learner's state, what came of it, and the agent."""
    agent = DrAC(3, SETTINGS)
    outcomes = [agent.train(CONFIG), agent.train({**CONFIG, "lr": 1e-3})]
    return agent.learner.state(), repr(outcomes), agent


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    narrow(monkeypatch.setattr)
    threads = torch.get_num_threads()
    yield monkeypatch
    torch.set_num_threads(threads)


def test_an_agent_trains_the_same_with_processes_and_ends_them(elsewhere: pytest.MonkeyPatch) -> None:
    expected, expected_outcomes, _ = train()
    elsewhere.setattr(agent_module, "_steps_elsewhere", lambda device: True)
    state, outcomes, agent = train()
    assert outcomes == expected_outcomes
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    processes = [process._process for process in agent._processes]
    assert len(processes) == 2
    assert all(process.poll() is None for process in processes)
    del agent
    gc.collect()
    assert [process.returncode for process in processes] == [0, 0]


def test_an_agent_goes_on_after_an_interrupted_rollout(elsewhere: pytest.MonkeyPatch) -> None:
    _, expected, _ = train()
    elsewhere.setattr(agent_module, "_steps_elsewhere", lambda device: True)
    agent, calls = DrAC(3, SETTINGS), 0
    act = agent.learner.act

    def interrupted(part: int | None = None) -> Any:
        nonlocal calls
        calls += 1
        if calls == 10:  # One part is stepping, the other's answer was just received.
            raise KeyboardInterrupt
        return act(part)

    elsewhere.setattr(agent.learner, "act", interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent.train(CONFIG)
    outcomes = [agent.train(CONFIG), agent.train({**CONFIG, "lr": 1e-3})]
    assert repr(outcomes) == expected
