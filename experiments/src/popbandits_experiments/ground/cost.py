"""Cost of a round on this machine: acting, learning and scoring with their floors, and deciding."""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from popbandits_experiments.batched import spaces
from popbandits_experiments.batched.optimizers import MINIBATCHES
from popbandits_experiments.batched.ppo import BatchedPPO
from popbandits_experiments.batched.random import Streams, keys_of
from popbandits_experiments.ground.deciding import MEMBERS
from popbandits_experiments.ground.grounds import GROUNDS
from popbandits_experiments.ground.run import COMPARED
from popbandits_experiments.ground.sitting import Batch, sit

BYTES = 4  # bytes of a float32
SUPERVISED = ("Digits", "Recall", "Modular")
"""Tasks without acting and scoring by episodes."""
PASSES = 7
"""Memory accesses of an optimizer per weight: weight and both moments read and written, gradient read."""
BACKWARD = 3
"""Products of a step of learning, as multiples of those of a forward pass."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the measurement."""
    parser.add_argument("--task", choices=[name for name in GROUNDS if name not in SUPERVISED], default="Pendulum")
    parser.add_argument("--populations", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2, help="rounds of the sitting that is timed; 0 for none")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, help="processes that decide; one for each core if left out")


@dataclass(frozen=True)
class Part:
    """A part of a round: its time, and the work of its products and memory traffic alone."""

    name: str
    seconds: float
    operations: float
    moved: float

    def row(self, rate: float, bandwidth: float) -> str:
        """Format a row of the table; rates are per second."""
        floor = max(self.operations / rate, self.moved / bandwidth)
        limit = "products" if self.operations / rate > self.moved / bandwidth else "memory"
        times = f"{1e3 * self.seconds:.2f} ms | {1e3 * floor:.2f} ms ({limit})"
        return f"| {self.name} | {times} | {self.seconds / floor:.1f} |"


def main(options: argparse.Namespace) -> None:
    """Print the table of the parts, then how a short sitting spent its time."""
    device = torch.device(options.device)
    bandwidth, rate = _bandwidth(device), _rate(device)
    members = MEMBERS * options.populations
    ground = GROUNDS[options.task]
    agents = ground.make(range(members), 1, options.device)
    assert isinstance(agents, BatchedPPO)
    print(f"{options.task}, {members:,} members, {ground.steps:,} steps a rollout")
    print(f"copies {bandwidth / 1e9:,.0f} GB/s, float32 products {rate / 1e9:,.0f} GFLOP/s\n")
    print("| part | time | floor | times its floor |\n| --- | ---: | ---: | ---: |")
    for part in _parts(agents, device):
        print(part.row(rate, bandwidth), flush=True)
    del agents
    if options.rounds:
        seeds = max(2, options.populations // len(COMPARED))
        short = replace(ground, updates=options.rounds)
        batches = [
            Batch(short, "wide", options.rounds, COMPARED, half, "development")
            for half in (range(seeds // 2), range(seeds // 2, seeds))
        ]
        clock = sit(batches, options.device, lambda records: None, lambda text: None, workers=options.workers)
        print(f"\n{options.rounds} rounds of {seeds * len(COMPARED)} populations, one update each: {clock}")


def _parts(agents: BatchedPPO, device: torch.device) -> list[Part]:
    settings, brains = agents.settings, agents.brains
    members, weights = brains.flat.shape
    rows = settings.rollout * settings.copies
    streams = Streams(keys_of(range(members), device))
    agents.train([spaces.DEFAULTS] * members)
    forward = 2.0 * members * rows * weights
    rollout = sum(tensor.nbytes for tensor in vars(agents.rollout).values())
    seen = members * rows * brains.inputs * BYTES
    steps = MINIBATCHES[-1]  # with the defaults: one after every chunk
    episodes = agents.test(streams).shape[1]
    limit = getattr(agents.world, "task", agents.world).limit  # type: ignore[union-attr]
    return [
        Part("acting: a rollout", _time(lambda: agents.play.collect(streams), device), forward / 2, rollout),
        Part("preparing it", _time(agents._prepare, device), 2 * forward, rollout + 3 * seen),
        Part(
            "learning: an epoch",
            _time(agents._epoch, device),
            BACKWARD * forward,
            3 * seen + steps * PASSES * brains.flat.nbytes,
        ),
        Part(
            f"scoring: {episodes} episodes",
            _time(lambda: agents.test(streams), device),
            members * episodes * limit * weights,
            members * episodes * limit * brains.inputs * BYTES,
        ),
    ]


def _time(procedure: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """Return the median seconds of a procedure, after two calls that warm it up."""
    times = []
    for _ in range(repeats + 2):
        _wait(device)
        start = time.perf_counter()
        procedure()
        _wait(device)
        times.append(time.perf_counter() - start)
    return sorted(times[2:])[repeats // 2]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _bandwidth(device: torch.device) -> float:
    """Measure bytes per second of a large copy, counting both reads and writes."""
    size = 2**28 if device.type == "cuda" else 2**25
    source = torch.ones(size, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _time(lambda: target.copy_(source), device)


def _rate(device: torch.device) -> float:
    """Measure operations per second of a large product of float32 matrices."""
    size = 8192 if device.type == "cuda" else 1024
    torch.backends.cuda.matmul.allow_tf32 = False
    factor = torch.rand(size, size, device=device)
    return 2.0 * size**3 / _time(lambda: factor @ factor, device)
