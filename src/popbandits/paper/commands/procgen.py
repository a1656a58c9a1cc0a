"""`popbandits procgen`."""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from popbandits.commands.registry import STOPPED, Command, command, made, output
from popbandits.errors import ArgumentError
from popbandits.paper.procgen.methods import ALONE, LABELS, TUNED, parse_steps, short

if TYPE_CHECKING:
    from popbandits.run import Experiment


@dataclass(frozen=True)
class Preset:
    """How large a run is."""

    population: int = 4
    steps: int = 25_000_000
    interval: int = 500_000
    agents: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `popbandits.paper.procgen.task.Task`."""


FULL = Preset()
# Environments begin anew with every interval, so each needs steps enough to end an episode: most time out after 1,000.
SMALL = {"environments": 2, "steps": 256, "epochs": 1, "minibatches": 4, "episodes": 4, "test_every": 4}
QUICK = Preset(2, 8_192, 2_048, SMALL)


@command
def procgen(parser: argparse.ArgumentParser) -> Command:
    """Run the paper's experiment on Procgen, and print its tables.

    A population of DrAC agents learns a game, and the learning rate, clipping,
    entropy bonus, regularisation and augmentation are tuned meanwhile; or one agent
    learns alone, with the published settings (ppo, drac, ucb-drac). Several games,
    methods and seeds make a grid, a run each, in DIR/GAME/METHOD/SEED. The same
    command goes on where it stopped: what is finished is left alone.

    After every tenth interval and at the end agents play 100 episodes on levels
    that they were trained on and 100 on any. --table prints the paper's tables of
    these returns from runs in any folders, beside the published figures.

    It needs torch and EnvPool: pip install 'popbandits[rl]'
    """
    add = parser.add_argument
    add("--game", "--games", nargs="+", default=["bigfish"], metavar="NAME", help="such as bigfish, leaper (bigfish)")
    add(
        "--method",
        "--methods",
        nargs="+",
        default=["pb2-mix"],
        metavar="NAME",
        help=f"of {', '.join(LABELS)} (pb2-mix)",
    )
    add("--seed", "--seeds", nargs="+", type=int, default=[0], metavar="N", help="of everything random (0)")
    add("--population", type=int, metavar="N", help=f"members ({FULL.population}; of ppo, drac and ucb-drac 1)")
    add("--steps", type=_steps, metavar="N", help=f"environment steps of each member ({short(FULL.steps)})")
    add("--interval", type=_steps, metavar="N", help=f"environment steps of a round ({short(FULL.interval)})")
    add("--difficulty", choices=["easy", "hard"], default="easy", help="of the levels (easy, as published)")
    add(
        "--select-on",
        choices=["training", "validation"],
        default="training",
        help="whose returns are the score: the last 100 episodes of training, as published, or 100 on levels apart",
    )
    add("--quick", action="store_true", help="a first look: so small that a CPU does it in minutes, and learns nothing")
    add("--device", metavar="NAME", help="cpu, or cuda: members then share the GPU (cuda where there is one)")
    add("--precision", choices=["float32", "bfloat16"], help="of convolutions (bfloat16 on a GPU, float32 on a CPU)")
    add("--time-limit", type=_seconds, metavar="SECONDS", help="stop before it is over, between two rounds")
    add(
        "--table",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="train nothing: print the tables of the runs in these folders (the output folder)",
    )
    output(parser, Path("runs/procgen"))

    def start(arguments: argparse.Namespace) -> int | None:
        if arguments.table is not None:
            _print_tables(arguments.table or [arguments.output])
            return None

        from popbandits.paper.grid import run_grid
        from popbandits.reports.tables import WHERE
        from popbandits.views.terminal import terminal_view

        try:
            experiments = list(_experiments(arguments))
        except ArgumentError as error:
            parser.error(str(error))
        made(arguments.output)
        finished = run_grid(
            experiments,
            lambda experiment: terminal_view(experiment.at_a_time),
            time_limit=arguments.time_limit,
            may_differ=frozenset(WHERE),
        )
        if not finished:
            print("Not all of it is done; the same command goes on.")
            return STOPPED
        _print_tables([Path(str(experiment.directory)) for experiment in experiments])
        return None

    return start


def _print_tables(directories: list[Path]) -> None:
    from popbandits.paper.procgen.tables import print_tables, trials
    from popbandits.wording import visible

    print_tables(trials(directories, lambda error: print(f"Left out: {visible(str(error))}")))


def _steps(text: str) -> int:
    try:
        return parse_steps(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"it must be above 0 seconds, got {text!r}; leave it out for no limit")
    return seconds


def _device(name: str | None) -> tuple[str, bool]:
    """Return the device and whether it is a GPU; ArgumentError if it is neither that nor a CPU, or not there."""
    import torch

    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ArgumentError(f"device must be cpu, cuda or cuda:N, got {name!r}")
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= there:
        raise ArgumentError(f"device must be there, got {name!r} where torch sees {there} GPUs; give --device cpu")
    return name, device.type == "cuda"


def _experiments(arguments: argparse.Namespace) -> Iterator["Experiment"]:
    """The runs that were asked for, seed by seed; ArgumentError if one of them is wrong."""
    import popbandits.rl  # noqa: F401 - first: it says what to install
    from popbandits.explorers import RandomSearch
    from popbandits.paper.procgen.environments import GAMES
    from popbandits.paper.procgen.task import SPACE, Task, published
    from popbandits.run import Experiment

    given = {name: getattr(arguments, name) for name in ("population", "steps", "interval")}
    size = replace(QUICK if arguments.quick else FULL, **{k: v for k, v in given.items() if v is not None})
    steps, interval = size.steps, size.interval
    if steps % interval:
        raise ArgumentError(f"steps must be a multiple of the interval, {interval}, got {steps}")
    device, on_gpu = _device(arguments.device)
    for what, asked, known in (("game", arguments.game, GAMES), ("method", arguments.method, LABELS)):
        if wrong := [name for name in asked if name not in known]:
            raise ArgumentError(f"{what}: none is called {wrong[0]!r}; there are {', '.join(known)}")
    seeds, games, methods = map(dict.fromkeys, (arguments.seed, arguments.game, arguments.method))
    if size.population < 1:
        raise ArgumentError(f"population must be at least 1, got {size.population}; give some members")
    for seed, game, method in product(seeds, games, methods):
        members = 1 if method in ALONE else size.population
        task = Task(
            game,
            "drac" if method in TUNED else method,
            rounds=steps // interval,
            interval=interval,
            difficulty=arguments.difficulty,
            score_on=arguments.select_on,
            precision=arguments.precision or ("bfloat16" if on_gpu else "float32"),
            device=device,
            at_a_time=members,
            **size.agents,
        )
        task.settings()  # Complains now rather than in the first interval.
        experiment = Experiment(
            task,
            dict(SPACE) if method in TUNED else published(task.algorithm),
            TUNED[method].make() if method in TUNED else RandomSearch(),
            population=members,
            rounds=task.rounds,
            seed=seed,
            directory=arguments.output / game / method / str(seed),
            engine="threads",
            name=LABELS[method],
            task=game,
        )
        experiment.make_population()
        yield experiment
