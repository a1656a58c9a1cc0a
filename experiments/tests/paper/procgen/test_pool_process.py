"""Environments in processes of their own, which are real ones here."""

import gc
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from time import sleep

import numpy as np
import numpy.typing as npt
import pytest
import torch

from experiments.tests.paper.procgen.narrow import narrow
from popbandits.errors import AgentError
from popbandits_experiments.paper.procgen import agent as agent_module
from popbandits_experiments.paper.procgen.agent import DrAC, Settings
from popbandits_experiments.paper.procgen.environments import ACTIONS, LEVELS, Difficulty
from popbandits_experiments.paper.procgen.learner import Sizes
from popbandits_experiments.paper.procgen.mailbox import NO_MORE_FRAMES, Mailbox
from popbandits_experiments.paper.procgen.pool_process import PoolProcess
from popbandits_experiments.paper.procgen.reserve_pool import ReservePool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared by memfd_create, which Linux has")

GAME = "fruitbot"
DIFFICULTY: Difficulty = "hard"  # Episodes are short, and have rewards.
SIZE, STEPS = 3, 301
NOTHING = np.zeros(SIZE, np.int32)
SECONDS = 20


def start(process: PoolProcess, seed: int, game: str = GAME) -> None:
    process.open(game, LEVELS["train"], seed=seed, difficulty=DIFFICULTY, threads=1)


def act(mailbox: Mailbox, actions: npt.NDArray[np.int32], step: int = 0) -> None:
    mailbox.actions[:] = actions
    mailbox.acted[0] = step


def step(process: PoolProcess, mailbox: Mailbox) -> None:
    """Play the first step of a rollout."""
    mailbox.begin()
    process.play(1)
    act(mailbox, NOTHING)
    process.wait()


def play(seed: int) -> ReservePool:
    return ReservePool(GAME, LEVELS["train"], size=SIZE, seed=seed, difficulty=DIFFICULTY, threads=1)


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
    return Mailbox(SIZE, STEPS)


@pytest.fixture(scope="module")
def process(mailbox: Mailbox) -> Iterator[PoolProcess]:
    """A process for tests that do not end it: starting one takes seconds."""
    process = PoolProcess(mailbox)
    yield process
    process.close()


@pytest.fixture
def mortal(mailbox: Mailbox) -> Iterator[PoolProcess]:
    process = PoolProcess(mailbox)
    yield process
    process.close()


def test_a_process_plays_what_a_pool_plays(mailbox: Mailbox, process: PoolProcess) -> None:
    pool, expected = play(7), np.zeros((SIZE, 3, 64, 64), np.uint8)
    pool.reset(expected)
    start(process, 7)
    seen, rng, ends, earned = mailbox.frames, np.random.default_rng(0), 0, 0.0
    assert np.array_equal(seen, expected)
    mailbox.begin()
    process.play(1)
    for number in range(STEPS):
        assert mailbox.row == mailbox.ready == number
        actions = rng.integers(ACTIONS, size=SIZE).astype(np.int32)
        act(mailbox, actions, number)
        process.wait()
        rewards, ended = mailbox.rewards[number], mailbox.ended[number]
        their_rewards, their_ended = pool.step(actions, expected)
        assert np.array_equal(seen, expected)
        assert rewards.tolist() == their_rewards.tolist()
        assert ended.tolist() == their_ended.tolist()
        ends += int(ended.sum())
        earned += float(np.abs(rewards).sum())
    pool.close()
    assert ends > 3
    assert earned > 0
    assert mailbox.ended.sum() == ends


def test_a_process_plays_the_levels_that_are_chosen(mailbox: Mailbox, process: PoolProcess) -> None:
    def play(*queue: int) -> list[list[int]]:
        mailbox.begin()
        process.choose(queue)
        process.play(STEPS)
        for number in range(STEPS):
            act(mailbox, NOTHING, number)
            while mailbox.ready[0] != number + 1:
                sleep(0.0001)
        process.wait()
        return [[level for level, _ in groupby(row)] for row in mailbox.levels.T.tolist()]

    process.open(GAME, LEVELS["train"], seed=0, difficulty=DIFFICULTY, threads=1, chosen=[7, 8, 9])
    first = play(20, 21, 22, 23)
    assert [levels[0] for levels in first] == [7, 8, 9]
    begun = [level for levels in first for level in levels[1:]]
    assert set(begun) <= {20, 21, 22, 23}
    assert len(begun) > 3
    again = [level for levels in play(50) for level in levels]
    assert 50 in again
    assert set(again) <= {20, 21, 22, 23, 50}


def test_opening_again_gives_new_environments(mailbox: Mailbox, process: PoolProcess) -> None:
    seen = []
    for seed in (1, 2, 1):
        start(process, seed)
        seen.append(mailbox.frames.copy())
        step(process, mailbox)
    assert np.array_equal(seen[0], seen[2])
    assert not np.array_equal(seen[0], seen[1])


@pytest.mark.parametrize("acted", [0, 1, 2])
def test_a_rollout_that_was_interrupted_does_not_answer_for_another(
    mailbox: Mailbox, process: PoolProcess, acted: int
) -> None:
    start(process, 1)
    first = mailbox.frames.copy()
    mailbox.begin()
    process.play(1)
    for number in range(acted):
        act(mailbox, NOTHING, number)
        if number < acted - 1:
            process.wait()  # Nobody waits for the last.
    start(process, 1)
    assert mailbox.ready == NO_MORE_FRAMES  # Nobody waits for frames of that rollout any more.
    assert np.array_equal(mailbox.frames, first)
    step(process, mailbox)
    pool, expected = play(1), np.zeros_like(first)
    pool.reset(expected)
    pool.step(NOTHING, expected)
    pool.close()
    assert np.array_equal(mailbox.frames, expected)


def test_steps_wait_for_their_own_actions_and_say_how_long(mailbox: Mailbox, process: PoolProcess) -> None:
    start(process, 1)
    mailbox.begin()
    act(mailbox, NOTHING, 7)  # Of another rollout.
    process.play(1)
    assert not select.select([process._socket], [], [], 0.3)[0]
    act(mailbox, NOTHING, 0)
    process.wait()
    assert not select.select([process._socket], [], [], 0.2)[0]
    act(mailbox, NOTHING, 1)
    process.wait()
    acting, stepping = mailbox.seconds
    assert acting > 0.3  # Of 0.5 seconds: on a busy machine the process may begin to wait late.
    assert stepping > 0


def test_several_steps_are_reported_at_a_time_and_the_last_ones_too(mailbox: Mailbox, process: PoolProcess) -> None:
    start(process, 1)
    mailbox.begin()
    process.play(2)
    for number in range(STEPS):
        act(mailbox, NOTHING, number)
        while mailbox.ready[0] != number + 1:
            sleep(0.0001)
        if number % 2 or number == STEPS - 1:
            process.wait()
        else:
            assert not select.select([process._socket], [], [], 0.001)[0]


def test_a_killed_process_is_reported_with_its_status(mailbox: Mailbox, mortal: PoolProcess) -> None:
    start(mortal, 1)
    step(mortal, mailbox)
    os.kill(mortal._process.pid, signal.SIGKILL)
    message = "the process of the environments ended, with status -9"
    with pytest.raises(AgentError, match=message):  # Whether sending or waiting finds it out.
        step(mortal, mailbox)
    with pytest.raises(AgentError, match=message):
        start(mortal, 1)


def test_a_request_to_terminate_is_left_to_the_parent(mailbox: Mailbox, process: PoolProcess) -> None:
    start(process, 1)
    os.kill(process._process.pid, signal.SIGTERM)
    step(process, mailbox)
    assert process._process.poll() is None


def test_a_request_to_terminate_is_left_to_the_parent_from_the_beginning() -> None:
    begun = PoolProcess(Mailbox(SIZE, STEPS))
    os.kill(begun._process.pid, signal.SIGTERM)
    start(begun, 1)
    begun.close()


def test_an_error_during_a_rollout_is_reported_and_nobody_waits_for_frames(
    mailbox: Mailbox, mortal: PoolProcess
) -> None:
    start(mortal, 1)
    mailbox.begin()
    mortal.play(0)
    act(mailbox, NOTHING)
    with pytest.raises(AgentError, match="environments could not be stepped: ZeroDivisionError"):
        mortal.wait()
    assert mailbox.ready == NO_MORE_FRAMES
    assert mortal._process.returncode == 1


def test_environments_that_cannot_be_made_are_reported_with_the_reason(mortal: PoolProcess) -> None:
    with pytest.raises(AgentError, match="ArgumentError: game must be one of Procgen's, got 'pong'; choose from"):
        start(mortal, 1, "pong")
    with pytest.raises(AgentError, match="the process of the environments ended, with status 1"):
        start(mortal, 1)


@pytest.mark.slow  # Others end later.
def test_a_process_that_is_closed_while_it_starts_ends(mortal: PoolProcess) -> None:
    mortal.close()
    assert mortal._process.returncode == 0
    mortal.close()  # Nothing happens.


def test_a_process_ends_and_files_are_closed_with_the_last_that_uses_them(process: PoolProcess) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))  # With those of another process.
    mailbox = Mailbox(SIZE, STEPS)
    other: PoolProcess | None = PoolProcess(mailbox)
    assert other is not None
    start(other, 1)
    other.play(1)  # It also ends in the middle of a rollout.
    popen, frames = other._process, mailbox.frames
    del other, mailbox
    assert popen.returncode == 0
    assert frames.any()  # They stay as long as they are used.
    del frames, popen
    assert len(os.listdir("/proc/self/fd")) == before


PARENT = """
import sys
from popbandits_experiments.paper.procgen.environments import LEVELS
from popbandits_experiments.paper.procgen.mailbox import Mailbox
from popbandits_experiments.paper.procgen.pool_process import PoolProcess
from popbandits_experiments.paper.procgen.reserve_pool import ReservePool

mailbox = Mailbox(2, 10)
process = PoolProcess(mailbox)
told = opened = False
while True:
    try:
        while True:  # Within the try: an interrupt may come at any line.
            if not told:
                told = True
                print(process._process.pid, flush=True)
            sys.stdin.readline()
            if not opened:
                process.open("bossfight", LEVELS["train"], seed=0, difficulty="easy", threads=1)
                process.play(1)
                opened = True
            mailbox.acted[0] += 1
            process.wait()
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


def test_an_interrupt_is_left_to_the_parent_and_its_end_ends_the_process(parent: "subprocess.Popen[str]") -> None:
    child = int(said(parent))
    os.killpg(parent.pid, signal.SIGINT)  # Also while the child is still starting.
    assert said(parent) == "interrupted"
    assert ask(parent) == "stepped"
    os.killpg(parent.pid, signal.SIGINT)
    assert said(parent) == "interrupted"
    assert ask(parent) == "stepped"
    parent.kill()
    assert is_gone(child)


@pytest.mark.slow  # The same, but the child is still starting.
def test_a_process_that_starts_ends_when_its_parent_is_killed(parent: "subprocess.Popen[str]") -> None:
    child = int(said(parent))
    parent.kill()
    assert is_gone(child)


SIZES = Sizes(environments=SIZE, steps=16, epochs=1, minibatches=2)
SETTINGS = Settings(GAME, DIFFICULTY, interval=SIZES.rollout, sizes=SIZES, threads=1)
CONFIG = {"lr": 5e-4, "clip": 0.2, "entropy": 0.01, "alpha": 0.1, "augmentation": "crop"}


def train(agent: DrAC) -> tuple[dict[str, torch.Tensor], str]:
    """Train for two intervals; return the learner's state and what came of it."""
    outcomes = [agent.train(CONFIG), agent.train({**CONFIG, "lr": 1e-3})]
    return agent.learner.state(), repr(outcomes)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    narrow(monkeypatch.setattr)
    threads = torch.get_num_threads()
    yield monkeypatch
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def undisturbed() -> tuple[dict[str, torch.Tensor], str, str]:
    """What training and an evaluation come to without a process."""
    with pytest.MonkeyPatch.context() as patch:
        narrow(patch.setattr)
        threads = torch.get_num_threads()
        agent = DrAC(3, SETTINGS)
        returns = repr(agent.evaluate(["train"], seed=1, episodes=2))
        result = (*train(agent), returns)
        torch.set_num_threads(threads)
    return result


@pytest.mark.parametrize("at", [pytest.param(1, id="opening", marks=pytest.mark.slow), pytest.param(10, id="stepping")])
def test_an_agent_trains_the_same_with_a_process_even_after_an_interrupt_and_ends_it(
    elsewhere: pytest.MonkeyPatch, undisturbed: tuple[dict[str, torch.Tensor], str, str], at: int
) -> None:
    expected, expected_outcomes, expected_returns = undisturbed
    elsewhere.setattr(agent_module, "_steps_elsewhere", lambda device: True)
    waits, receive = 0, PoolProcess._receive

    def interrupted(process: PoolProcess) -> str:
        nonlocal waits
        waits += 1
        if waits == at:
            raise KeyboardInterrupt
        return receive(process)

    elsewhere.setattr(PoolProcess, "_receive", interrupted)
    agent = DrAC(3, SETTINGS)
    assert agent._process is not None
    popen = agent._process._process
    with pytest.raises(KeyboardInterrupt):
        agent.train(CONFIG)
    assert repr(agent.evaluate(["train"], seed=1, episodes=2)) == expected_returns
    state, outcomes = train(agent)
    assert outcomes == expected_outcomes
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    assert popen.poll() is None
    agent.close()
    assert popen.returncode == 0
    with pytest.raises(AgentError, match="the process of the environments ended, with status 0"):
        agent.train(CONFIG)


@pytest.mark.slow  # Pools play the same in a process, and replay resumes, in cases that are always run.
def test_levels_are_replayed_the_same_with_a_process(elsewhere: pytest.MonkeyPatch) -> None:
    settings = replace(SETTINGS, levels="replay", interval=8 * SIZES.rollout)
    trained = []
    for in_process in (False, True):
        elsewhere.setattr(agent_module, "_steps_elsewhere", lambda device, there=in_process: there)
        agent = DrAC(3, settings)
        outcome = agent.train(CONFIG | {"temperature": 0.3, "staleness": 0.2})
        trained.append((repr(outcome), repr(agent._state()), agent.learner.state()["parameters"].tolist()))
        agent.close()
    assert trained[0] == trained[1]
    assert "'levels': {'scores': [" in trained[0][1]
