"""Training speed of a population on Procgen, by part: `python -m popbandits_experiments.speed.procgen_speed`.

The parts alone, each with its floor, a lower bound of its time:

- acting: one step's frames to the device, the network, a draw and its record, the actions back. Floor: the frames over
  the bus.
- stepping: the environments. Floor: as many stepped by a bare loop, on as many threads.
- new environments: a pool made, reset and closed.
- update: one minibatch, forward, backward and Adam. Floor: its activations written and read once, each way.
- augmentation: its share of a minibatch of the update. Floor: its frames read and written once.
- on a GPU, the kernels of an update, by PyTorch's profiler.

Populations of DrAC members, each member in a thread of Python and with several threads for its environments: the
environment steps per second of all members in a round of a few rollouts, median of some rounds after one in which
everything is compiled, and how the members spend their time in that round. Rounds have no tests. Where members update
one after another, the device is idle, except for acting, while no member updates.

The processor's limit: pools in processes of their own, stepped by bare loops at the same time, with nothing else to do.
"""

import argparse
import json
import multiprocessing
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import cycle, product
from pathlib import Path
from statistics import median
from threading import Barrier

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

from popbandits_experiments.paper.procgen.agent import DrAC, Settings, threads_a_member
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS
from popbandits_experiments.paper.procgen.environments import ACTIONS, FRAME, LEVELS, Pool
from popbandits_experiments.paper.procgen.lanes import MEMBERS_OF_A_LANE
from popbandits_experiments.paper.procgen.learner import Learner, Sizes
from popbandits_experiments.paper.procgen.reserve_pool import ReservePool

CONFIG = {"lr": 5e-4, "clip": 0.2, "entropy": 0.01, "alpha": 0.1, "augmentation": "crop"}


@dataclass(frozen=True)
class Part:
    """Time of a part alone, and its floor, in milliseconds; NaN where there is none."""

    name: str
    milliseconds: float
    floor: float = float("nan")


@dataclass(frozen=True)
class Throughput:
    """Environment steps per second of all members, and the shares of the members' time."""

    members: int
    threads: int
    """Threads for the environments of each member."""
    rounds: list[float]
    """Environment steps per second of every round; the median of them is reported."""
    steps_a_second: float
    shares: dict[str, float]
    device_idle: float | None
    """Share of the round in which no member updated; None where several do at the same time."""


def milliseconds(procedure: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Return the median time of a call until the device has finished it."""
    synchronize: Callable[[], object] = (
        partial(torch.cuda.synchronize, device) if device.type == "cuda" else lambda: None
    )
    times = []
    for repeat in range(repeats + 3):
        synchronize()
        start = time.perf_counter()
        procedure()
        synchronize()
        if repeat >= 3:  # Compiling and capturing come first.
            times.append(time.perf_counter() - start)
    return 1e3 * median(times)


def activation_bytes(images: int, bytes_a_number: int) -> int:
    """Return the bytes the trunk writes forward: per section, a convolution and five tensors of half the side."""
    numbers = sum(side**2 * channels * (1 + 5 / 4) for side, channels in ((64, 16), (32, 32), (16, 32)))
    return int(images * numbers * bytes_a_number)


def measure_kernels(learner: Learner, generator: torch.Generator, minibatches: int) -> dict[str, float]:
    """Return the device's milliseconds for a minibatch of an update by kernel, the longest first."""
    learner.update("crop", generator)  # Compiling and capturing come first.
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        learner.update("crop", generator)
    found = {event.key: event.self_device_time_total / 1e3 / minibatches for event in profiled.key_averages()}
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def measure_parts(settings: Settings, repeats: int) -> tuple[list[Part], dict[str, float]]:
    """Measure each part alone, on an otherwise idle machine, and the kernels of an update."""
    device, sizes = torch.device(settings.device), settings.sizes
    agent = DrAC(0, settings)
    agent.train(CONFIG)
    learner, generator = agent.learner, torch.Generator(device).manual_seed(0)
    frames = sizes.environments * int(np.prod(FRAME))

    large = torch.zeros(2**28 if device.type == "cuda" else 2**22, dtype=torch.uint8, device=device)
    other = torch.empty_like(large)
    bandwidth = 2 * len(large) / milliseconds(lambda: other.copy_(large), device, repeats)
    on_host = torch.zeros(
        2**26 if device.type == "cuda" else 2**20, dtype=torch.uint8, pin_memory=device.type == "cuda"
    )
    bus = len(on_host) / milliseconds(lambda: on_host.to(device, non_blocking=True), device, repeats)

    learner.begin(generator)
    calls = min(repeats, sizes.steps - 3)
    parts = [Part("acting, a step", milliseconds(learner.act, device, calls), frames / bus)]

    def new_pool() -> ReservePool:
        pool = ReservePool(settings.game, LEVELS["train"], size=sizes.environments, seed=0, threads=settings.threads)
        pool.reset(learner.frames)
        return pool

    rng, cpu = np.random.default_rng(0), torch.device("cpu")
    actions = cycle(rng.integers(ACTIONS, size=(256, sizes.environments)).astype(np.int32))
    with closing(new_pool()) as pool:
        stepping = milliseconds(lambda: pool.step(next(actions), learner.frames), cpu, repeats)
    with closing(
        Pool(settings.game, LEVELS["train"], size=sizes.environments, seed=0, threads=settings.threads)
    ) as bare:
        bare.reset(learner.frames)
        floor = milliseconds(lambda: bare.envpool.step(next(actions)), cpu, repeats)
    parts += [Part("stepping, a step", stepping, floor)]
    parts += [Part("new environments, a round", milliseconds(lambda: new_pool().close(), cpu, 5))]

    batches = sizes.epochs * sizes.minibatches
    number = 2 if settings.precision == "bfloat16" else 4

    def update(augmentation: str | None) -> float:
        procedure = partial(learner.update, augmentation, generator)
        return milliseconds(procedure, device, max(repeats // 10, 1)) / batches

    plain = update(None)  # Without an augmentation: the augmented half is still that of the last one.
    parts += [Part("update, a minibatch", plain, 4 * activation_bytes(2 * sizes.minibatch, number) / bandwidth)]
    moved = sizes.minibatch * int(np.prod(FRAME)) * (1 + number)
    parts += [Part(f"augmentation, {name}", update(name) - plain, moved / bandwidth) for name in AUGMENTATIONS]
    start = time.perf_counter()
    agent.evaluate(["test"], seed=0, episodes=sizes.environments)
    parts += [Part("evaluation, an episode", 1e3 * (time.perf_counter() - start) / sizes.environments)]
    kernels = measure_kernels(learner, generator, batches) if device.type == "cuda" else {}
    agent.close()
    return parts, kernels


def measure_population(settings: Settings, members: int, rounds: int) -> Throughput:
    """Measure a population in threads, after a round in which everything is compiled."""
    agents = [DrAC(seed, settings) for seed in range(members)]
    with ThreadPoolExecutor(members) as threads:

        def train() -> Throughput:
            start = time.perf_counter()
            outcomes = list(threads.map(lambda agent: agent.train(CONFIG), agents))
            wall = time.perf_counter() - start
            spent = {part: sum(agent.seconds[part] for agent in agents) for part in agents[0].seconds}
            shares = {part: seconds / (members * wall) for part, seconds in spent.items()}
            shares["everything else"] = 1 - sum(shares.values())
            steps = sum(outcome.steps or 0 for outcome in outcomes)
            idle = 1 - spent["update"] / wall if members <= MEMBERS_OF_A_LANE else None
            return Throughput(members, settings.threads, [], steps / wall, shares, idle)

        train()
        measured = sorted((train() for _ in range(rounds)), key=lambda each: each.steps_a_second)
    for agent in agents:
        agent.close()
    return replace(measured[rounds // 2], rounds=[each.steps_a_second for each in measured])


def measure_stepping(game: str, pools: int, size: int, threads: int, seconds: float = 4.0) -> float:
    """Return the steps per second of several pools together, each stepped by a bare loop in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(pools, mp_context=context) as processes:
        alone = partial(_step_alone, game, size, threads, seconds, manager.Barrier(pools))
        return sum(processes.map(alone, range(pools)))


def _step_alone(game: str, size: int, threads: int, seconds: float, start: Barrier, seed: int) -> float:
    with closing(Pool(game, LEVELS["train"], size=size, seed=seed, threads=threads)) as pool:
        pool.reset(np.empty((size, *FRAME), np.uint8))
        actions = cycle(np.random.default_rng(seed).integers(ACTIONS, size=(256, size)).astype(np.int32))
        start.wait()
        begin, steps = time.perf_counter(), 0
        while (passed := time.perf_counter() - begin) < seconds:
            pool.envpool.step(next(actions))
            steps += size
    return steps / passed


def show(parts: list[Part], populations: list[Throughput], kernels: dict[str, float], console: Console) -> None:
    update = next(part.milliseconds for part in parts if part.name.startswith("update"))
    table = Table("part, alone", "ms", "floor", "times its floor", "of an update")
    for part in parts:
        known = part.floor == part.floor
        share = f"{part.milliseconds / update:.1%}" if part.name.startswith("augmentation") else ""
        floors = (f"{part.floor:.3f}", f"{part.milliseconds / part.floor:.1f}") if known else ("", "")
        table.add_row(part.name, f"{part.milliseconds:.3f}", *floors, share)
    console.print(table)
    if kernels:
        table = Table("kernel of an update", "ms a minibatch")
        for kernel, time_ in kernels.items():
            table.add_row(kernel[:80], f"{time_:.3f}")
        console.print(table)
    table = Table("members", "threads each", "env steps/s", "device idle, but for acting", "a member's time")
    for row in populations:
        shares = ", ".join(f"{part} {share:.0%}" for part, share in row.shares.items())
        idle = "" if row.device_idle is None else f"{row.device_idle:.0%}"
        table.add_row(str(row.members), str(row.threads), f"{row.steps_a_second:,.0f}", idle, shares)
    console.print(table)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="bigfish")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--members", type=int, nargs="+", default=[1, 4, 12])
    parser.add_argument("--rollouts", type=int, default=8, help="rollouts of a round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of a population that are timed")
    parser.add_argument(
        "--threads",
        type=int,
        nargs="+",
        default=[0],
        help="for the environments of a member, tried one after another (0: as in the experiment)",
    )
    parser.add_argument(
        "--sizes", type=int, nargs=4, default=[64, 256, 3, 8], help="environments steps epochs minibatches"
    )
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    sizes = Sizes(*options.sizes)
    settings = Settings(
        options.game,
        interval=options.rollouts * sizes.rollout,
        sizes=sizes,
        device=options.device,
        precision="bfloat16" if options.device.startswith("cuda") else "float32",
    )

    def shared_by(members: int, threads: int) -> Settings:
        return replace(settings, threads=threads or threads_a_member(members, options.device))

    console = Console()
    name = torch.cuda.get_device_name() if options.device.startswith("cuda") else platform.processor() or "CPU"
    console.print(f"{name}, torch {torch.__version__}, {options.game}, {settings.precision}")
    tried = list(product(options.members, options.threads))
    populations = [measure_population(shared_by(*each), each[0], options.rounds) for each in tried]
    parts, kernels = measure_parts(shared_by(1, 0), options.repeats)
    show(parts, populations, kernels, console)
    cores = os.cpu_count() or 1
    shared = {(members, shared_by(members, threads).threads) for members, threads in tried}
    limits = {
        f"{pools} pools, {threads} threads each": measure_stepping(options.game, pools, sizes.environments, threads)
        for pools, threads in sorted({*shared, (cores, 1)})
    }
    for pools, rate in limits.items():
        console.print(f"stepping alone, {pools}: {rate:,.0f} environment steps/s")
    if options.out:
        figures = {
            "parts": [asdict(part) for part in parts],
            "populations": [asdict(row) for row in populations],
            "kernels": kernels,
            "stepping alone": limits,
        }
        options.out.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
