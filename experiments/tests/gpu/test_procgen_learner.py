"""Learners and agents on a GPU: graphs, rounding, members that share the device, checkpoints, augmentations."""

import gc
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from experiments.tests.paper.procgen import triton_cases
from experiments.tests.paper.procgen.cuda.kernel_cases import frames, parameters
from experiments.tests.paper.procgen.interpreted_network import plain_heads
from popbandits.errors import AgentError
from popbandits_experiments.paper.procgen import agent as agent_module
from popbandits_experiments.paper.procgen import learner as learner_module
from popbandits_experiments.paper.procgen import network
from popbandits_experiments.paper.procgen.agent import DrAC, Precision, Settings
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS
from popbandits_experiments.paper.procgen.fused_network import FusedNetwork
from popbandits_experiments.paper.procgen.learner import Learner, Network, PlainTrunk, Sizes
from popbandits_experiments.paper.procgen.losses import Coefficients, total_loss
from popbandits_experiments.paper.procgen.pool_process import PoolProcess
from popbandits_experiments.paper.procgen.rollout import Rollout
from popbandits_experiments.paper.procgen.torch_trunk import TorchTrunk

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("default"),  # PyTorch's compiler has warnings that differ between versions.
]

GPU = torch.device("cuda", 0)
SIZES = Sizes(environments=8, steps=16, epochs=2, minibatches=2)
SETTINGS = Settings("bigfish", interval=SIZES.rollout, sizes=SIZES, device="cuda:0", precision="bfloat16", threads=2)
CONFIG = {"lr": 5e-4, "clip": 0.2, "entropy": 0.01, "alpha": 0.1, "augmentation": "crop"}
MORE_THAN_PYTORCH = 1.5


def fused() -> Network:
    made = agent_module._network(SETTINGS)
    assert isinstance(made, FusedNetwork)  # Not PyTorch's, as where no compiler is found.
    return made


def make_learner(seed: int = 0) -> Learner:
    learner = Learner(seed, SIZES, fused(), GPU, regularised=True)
    learner.set(lr=1e-3, clip=0.1, entropy=0.02, alpha=0.3)
    return learner


def act(learner: Learner, seed: int) -> list[list[int]]:
    """Act for a rollout on random frames; return all actions."""
    rng, actions = np.random.default_rng(seed), []
    learner.begin(Generator(GPU).manual_seed(seed))
    for _ in range(SIZES.steps + 1):
        colours = rng.integers(256, size=(SIZES.environments, 3, 4, 4), dtype=np.uint8)
        learner.frames[:] = colours.repeat(16, 2).repeat(16, 3)
        actions.append(learner.act().tolist())
    return actions


def look_back(learner: Learner, seed: int) -> None:
    rng, shape = np.random.default_rng(seed), (SIZES.steps, SIZES.environments)
    learner.look_back(rng.normal(size=shape), rng.random(shape) < 0.1)


def learn(learner: Learner) -> list[list[int]]:
    """Play and learn until all graphs were captured and replayed; return all actions."""
    generator, actions = Generator(GPU).manual_seed(9), []
    for seed in range(3):
        actions += act(learner, seed)
        look_back(learner, seed)
        with learner.turn:
            learner.update("crop", generator)
    return actions


@pytest.mark.parametrize("name", triton_cases.CASES)
def test_a_triton_kernel_computes_what_pytorch_does(name: str) -> None:
    triton_cases.CASES[name](GPU)


class Direct:
    """Stands for `Replayed`: runs the procedure, and captures nothing."""

    def __init__(self, procedure: Callable[[], None], stream: object) -> None:
        self._procedure = procedure

    def __call__(self) -> None:
        self._procedure()


def test_graphs_learn_as_the_procedures_that_they_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = make_learner()
    before = captured.state()["parameters"]
    actions = learn(captured)
    assert all(each._graph is not None for each in (captured._act, captured._learn))
    monkeypatch.setattr(learner_module, "Replayed", Direct)
    direct = make_learner()
    assert learn(direct) == actions
    assert len({action for step in actions for action in step}) > 5
    found, expected = captured.state(), direct.state()
    assert found["step"] == expected["step"] == 3 * SIZES.epochs * SIZES.minibatches
    moved = (expected["parameters"] - before).norm()
    assert (found["parameters"] - expected["parameters"]).norm() < 1e-3 * moved  # Libraries may add up otherwise.


def gradient_case(seed: int) -> tuple[Tensor, Rollout, Tensor, Coefficients]:
    """Frames, clean and augmented, with records of a rollout that they belong to."""
    generator = Generator().manual_seed(seed)

    def normal(scale: float) -> Tensor:
        return scale * torch.randn(4, 8, generator=generator)

    rollout = Rollout(4, 8, GPU)
    rollout.actions[:-1] = torch.randint(15, (4, 8), generator=generator).to(GPU)
    rollout.log_probabilities[:-1] = (normal(0.1) - np.log(15)).to(GPU)
    rollout.values[:-1] = normal(0.5).to(GPU)
    rollout.returns.copy_(normal(1.0))
    rollout.advantages.copy_(normal(1.0))
    order = torch.randperm(32, generator=generator).to(GPU)
    coefficients = Coefficients(*(torch.tensor(each, device=GPU) for each in (0.2, 0.01, 0.5)))
    return frames(64, seed).to(GPU), rollout, order, coefficients


def gradient(network_: Network, seed: int) -> Tensor:
    seen, rollout, order, coefficients = gradient_case(seed)
    flat, buffer = parameters().to(GPU).requires_grad_(), network_.buffer(len(seen))
    network_.put(buffer, seen, torch.arange(len(seen), device=GPU))
    network_.load(flat)
    out = torch.full(flat.shape, torch.nan, device=GPU)
    network_.gradient(buffer, flat, rollout, order, coefficients, out)
    return out


def exact_gradient(seed: int) -> Tensor:
    seen, rollout, order, coefficients = gradient_case(seed)
    flat = parameters().to(GPU).double().requires_grad_()
    logits, values = plain_heads(network.trunk(seen.double(), flat), flat)
    batch = rollout.batch(order)
    doubled = {name: each.double() for name, each in vars(batch).items() if name != "actions"}
    exact = Coefficients(*(each.double() for each in vars(coefficients).values()))
    return torch.autograd.grad(total_loss(logits, values, replace(batch, **doubled), exact), flat)[0]


def test_an_updates_gradient_is_as_exact_as_pytorchs_in_bfloat16() -> None:
    networks = (fused(), TorchTrunk(GPU, torch.bfloat16), TorchTrunk(GPU, torch.float32))
    squares = torch.zeros(3)
    for seed in range(8):  # One rectified number more or less changes much in a single draw.
        expected = exact_gradient(seed)
        errors = [(gradient(each, seed) - expected).norm() / expected.norm() for each in networks]
        squares += torch.tensor(errors) ** 2
    ours, usual, single = (squares / 8).sqrt().tolist()
    assert single < usual < 0.5  # Else this would say nothing.
    assert ours < MORE_THAN_PYTORCH * usual


def train(agents: list[DrAC]) -> list[Tensor]:
    """Train agents at the same time, in a thread each, for two intervals; return their parameters."""
    failures: list[BaseException] = []

    def work(agent: DrAC) -> None:
        try:
            for _ in range(2):
                agent.train(CONFIG)
        except BaseException as failure:
            failures.append(failure)

    threads = [Thread(target=work, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [agent.learner.state()["parameters"] for agent in agents]


def test_members_that_share_a_gpu_learn_as_each_does_alone() -> None:
    alone = [train([DrAC(seed, SETTINGS)])[0] for seed in (0, 1)]
    together = train([DrAC(seed, SETTINGS) for seed in (0, 1)])
    assert not torch.equal(*alone)
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one, other)


def test_acting_while_another_member_updates_gives_the_same_actions() -> None:
    acting, updating = make_learner(0), make_learner(1)
    learn(updating)
    act(acting, 0)  # Graphs are captured.
    expected = [act(acting, seed) for seed in range(3)]
    stop, updates, generator = Event(), 0, Generator(GPU).manual_seed(0)

    def update() -> None:
        nonlocal updates
        while not stop.is_set():
            with updating.turn:
                updating.update("crop", generator)
            updates += 1

    thread = Thread(target=update)
    thread.start()
    try:
        found = [act(acting, seed) for seed in range(3)]
    finally:
        stop.set()
        thread.join()
    assert updates > 0
    assert found == expected


def recorded(stream: "torch.cuda.Stream | None") -> torch.cuda.Event:
    """Return an event behind what was launched on a stream."""
    end = torch.cuda.Event()
    end.record(stream)
    return end


@pytest.mark.parametrize("members", [4, 12])
def test_a_member_that_waits_for_frames_stops_no_other(members: int) -> None:
    """A GPU has up to 32 queues, which streams share: what is behind a stream that waits would wait, too."""
    gc.collect()  # The streams of former members are free then.
    learners = [make_learner(seed) for seed in range(members)]
    if any(each._frames_ready is None for each in learners):
        pytest.skip("steps are not launched ahead of their frames on this processor")
    numbers = list(torch.zeros(members, device=GPU))
    for number in numbers:
        number.add_(1)  # Loading a kernel waits for the whole device, so not while a stream waits for this test.
    stopped = []
    for index, waiting in enumerate(learners):
        for learner in learners:
            learner.begin(Generator(GPU))
        waiting.start_acting()
        waiting.start_acting()  # The frames of this row are not there.
        try:
            ends = {}
            for other, learner in enumerate(learners):
                if learner is not waiting:
                    learner.start_acting()  # A copy to the device, kernels, and a copy from it.
                    ends[other, "acting"] = recorded(learner._acting)
                with torch.cuda.stream(learner._learning):
                    numbers[other].add_(1)
                ends[other, "learning"] = recorded(learner._learning)
            patience = monotonic() + 1
            while monotonic() < patience and not all(end.query() for end in ends.values()):
                sleep(0.001)
            stopped += [(index, *other) for other, end in ends.items() if not end.query()]
            assert waiting._acting is not None
            assert not waiting._acting.query(), "nobody waits, so this says nothing"
        finally:
            waiting.mailbox.announce(1)
        torch.cuda.synchronize()
    assert stopped == []


def test_a_checkpoint_goes_on_bit_for_bit(tmp_path: Path) -> None:
    agent, other = DrAC(3, SETTINGS), DrAC(4, SETTINGS)
    agent.train(CONFIG)
    agent.save(tmp_path)
    before = agent.learner.state()["parameters"]
    other.load(tmp_path)
    config = {**CONFIG, "lr": 1e-3, "augmentation": "flip"}
    outcomes = [repr(each.train(config)) for each in (agent, other)]
    assert outcomes[0] == outcomes[1]
    ours, theirs = agent.learner.state(), other.learner.state()
    assert not torch.equal(ours["parameters"], before)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("environments", "steps", "precision"), [(1, 6, "float32"), (8, 21, "bfloat16"), (8, 40, "float32")]
)
def test_steps_that_are_launched_ahead_are_those_of_one_at_a_time(
    environments: int, steps: int, precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    minibatches = 2 if precision == "bfloat16" else 1  # Whose size must be even.
    sizes = Sizes(environments, steps, epochs=1, minibatches=minibatches)
    settings = replace(SETTINGS, sizes=sizes, interval=sizes.rollout, precision=precision, episodes=2)
    played = []
    for ahead in (16, 1):
        monkeypatch.setattr(learner_module, "AHEAD", ahead)
        agent = DrAC(7, settings)
        assert agent.learner.ahead == ahead
        returns = agent.evaluate(["train"], seed=0)
        agent.train(CONFIG)
        rollout = agent.learner._rollout
        played.append((returns, rollout.frames.cpu(), rollout.actions.cpu(), rollout.returns.cpu()))
        agent.close()
    assert played[0][0] == played[1][0]
    assert all(torch.equal(*each) for each in zip(played[0][1:], played[1][1:], strict=True))


def interrupt(monkeypatch: pytest.MonkeyPatch, at: int, how: Callable[[PoolProcess], None]) -> None:
    """Let something happen when an agent waits for its environments for this time, or later."""
    waits, receive = 0, PoolProcess._receive

    def interrupted(process: PoolProcess) -> str:
        nonlocal waits
        waits += 1
        if waits == at:
            how(process)
        return receive(process)

    monkeypatch.setattr(PoolProcess, "_receive", interrupted)


@pytest.mark.parametrize("at", [1, 2, 4], ids=["opening", "first steps", "later steps"])
def test_an_agent_plays_and_trains_the_same_after_an_interrupt(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    settings = replace(SETTINGS, sizes=replace(SIZES, steps=64), interval=64 * SIZES.environments, episodes=2)

    def stop(process: PoolProcess) -> None:
        raise KeyboardInterrupt

    expected, agent = DrAC(5, settings), DrAC(5, settings)
    with monkeypatch.context() as patch:
        interrupt(patch, at, stop)
        with pytest.raises(KeyboardInterrupt):
            agent.train(CONFIG)
    assert agent.evaluate(["train"], seed=0) == expected.evaluate(["train"], seed=0)
    for each in (agent, expected):
        each.train(CONFIG)
    assert torch.equal(agent.learner.state()["parameters"], expected.learner.state()["parameters"])


@pytest.mark.parametrize("before", [0, 1], ids=["first interval", "second interval"])
def test_a_gpu_does_not_wait_for_frames_of_a_process_that_was_killed(
    monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    agent = DrAC(6, SETTINGS)
    for _ in range(before):
        agent.train(CONFIG)
    parameters_before = agent.learner.state()["parameters"]
    with monkeypatch.context() as patch:
        interrupt(patch, 2, lambda process: os.kill(process._process.pid, signal.SIGKILL))
        with pytest.raises(AgentError, match="the process of the environments ended, with status -9"):
            agent.train(CONFIG)
    torch.cuda.synchronize()
    assert torch.equal(agent.learner.state()["parameters"], parameters_before)


def pixels(buffer: Tensor) -> Tensor:
    """Return the frames in a buffer, (n, 3, 64, 64) on the CPU."""
    inside = buffer[:, 1:65, 1:65, :3].permute(0, 3, 1, 2) if buffer.shape[-1] == 4 else buffer
    return inside.float().cpu()


@pytest.mark.parametrize("make", [fused, lambda: TorchTrunk(GPU, torch.float32)], ids=["fused", "float32"])
def test_frames_are_put_exactly(make: Callable[[], Any]) -> None:
    network_, seen = make(), frames(8)
    buffer = network_.buffer(8)
    rows = torch.tensor([7, 0, 0, 3, 6, 1, 2, 5])
    network_.put(buffer, seen.to(GPU), rows.to(GPU))
    assert torch.equal(pixels(buffer), seen[rows].float())
    assert float(buffer.double().sum()) == float(seen[rows].double().sum())  # Nothing but zeros around them.


@pytest.mark.parametrize("name", AUGMENTATIONS)
@pytest.mark.parametrize("make", [fused, lambda: TorchTrunk(GPU, torch.float32)], ids=["fused", "float32"])
def test_augmented_frames_are_those_of_the_plain_trunk(make: Callable[[], Any], name: str) -> None:
    network_, plain, seen, rows = make(), PlainTrunk(), frames(9), torch.tensor([8, 0, 0, 3, 6, 1, 2, 5])
    draws = AUGMENTATIONS[name].draw(8, Generator().manual_seed(3))
    buffer, expected = network_.buffer(8), plain.buffer(8)
    network_.put_augmented(buffer, seen.to(GPU), rows.to(GPU), name, tuple(each.to(GPU) for each in draws))
    plain.put_augmented(expected, seen, rows, name, draws)
    rounding = 0.004 if buffer.dtype == torch.bfloat16 else 0.001
    assert (pixels(buffer) - expected).norm() < rounding * expected.norm()
    assert not torch.equal(expected, seen[rows].float())
