"""`popbandits procgen`."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from popbandits.commands.registry import STOPPED, Command
from popbandits.errors import ArgumentError
from popbandits_experiments.paper.commands.folders import make_folder, output
from popbandits_experiments.paper.procgen.methods import ALONE, LABELS, TUNED, parse_steps, short

if TYPE_CHECKING:
    from popbandits.explorers import Explorer
    from popbandits.run import Experiment


@dataclass(frozen=True)
class Preset:
    """Size of a run."""

    population: int = 4
    steps: int = 25_000_000
    interval: int = 500_000
    agents: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of `popbandits_experiments.paper.procgen.task.Task`."""


FULL = Preset()
# Every interval starts new environments, so it needs enough steps to end an episode: most time out after 1,000.
SMALL = {"environments": 2, "steps": 256, "epochs": 1, "minibatches": 4, "episodes": 4, "test_every": 4}
QUICK = Preset(2, 8_192, 2_048, SMALL)


def procgen(parser: argparse.ArgumentParser) -> Command:
    """Run the paper's experiment on Procgen, and print its tables.

    A population of DrAC agents learns a game while its learning rate, clipping,
    entropy bonus, regularisation and augmentation are tuned; or one agent learns
    alone, with the published settings or others (ppo, drac, ucb-drac). Several
    games, methods and seeds make a grid, with one run for each in
    DIR/GAME/METHOD/SEED. The same command resumes where it stopped and skips
    finished runs.

    After every tenth interval and at the end, agents play 100 episodes on the
    training levels and 100 on all levels. --table prints the paper's tables of these
    returns from the runs in the given folders, next to the published figures.

    It needs torch and EnvPool: pip install 'popbandits[rl]'
    """
    add = parser.add_argument
    add("--game", "--games", nargs="+", default=["bigfish"], metavar="NAME", help="games, such as leaper (bigfish)")
    add(
        "--method",
        "--methods",
        nargs="+",
        default=["pb2-mix"],
        metavar="NAME",
        help=f"some of {', '.join(LABELS)} (pb2-mix)",
    )
    add("--seed", "--seeds", nargs="+", type=int, default=[0], metavar="N", help="seeds of all random numbers (0)")
    add("--population", type=int, metavar="N", help=f"members ({FULL.population}; 1 for ppo, drac and ucb-drac)")
    add("--steps", type=_steps, metavar="N", help=f"environment steps of each member ({short(FULL.steps)})")
    add("--interval", type=_steps, metavar="N", help=f"environment steps of a round ({short(FULL.interval)})")
    add("--difficulty", choices=["easy", "hard"], default="easy", help="difficulty of the levels (easy, as published)")
    add(
        "--select-on",
        choices=["training", "validation"],
        default="training",
        help="episodes that give the score: the last 100 of training, as published, or 100 on validation levels",
    )
    add(
        "--lr-scale",
        choices=["linear", "log"],
        default="linear",
        help="scale of the learning rate's range (linear, as published)",
    )
    add("--start", choices=["defaults"], help="let the first member begin with the published settings (all are drawn)")
    add(
        "--set",
        nargs="+",
        type=_setting,
        default=[],
        metavar="NAME=VALUE",
        help="train agents alone with these values, such as clip=0.45 (the published ones)",
    )
    add(
        "--continued-only",
        action="store_true",
        help="fit the models of PB2 methods to intervals without a new configuration, as the published code does",
    )
    add(
        "--score-before",
        action="store_true",
        help="give the models of PB2 methods the score before an interval as an input, as the published code does",
    )
    add(
        "--levels",
        choices=["uniform", "replay", "shuffled"],
        default="uniform",
        help="draw training levels uniformly, as published; by prioritised replay, which populations tune too; or, "
        "as a control, by replay with shuffled scores",
    )
    add("--quick", action="store_true", help="a tiny run that takes minutes on a CPU and learns nothing")
    add("--device", metavar="NAME", help="cpu, or cuda: members then share the GPU (cuda where there is one)")
    add("--precision", choices=["float32", "bfloat16"], help="for convolutions (bfloat16 on a GPU, else float32)")
    add(
        "--at-a-time",
        type=int,
        default=1,
        metavar="N",
        help="members that train at the same time, of as many runs as fit: twelve suit a GPU (one run at a time)",
    )
    add("--time-limit", type=_seconds, metavar="SECONDS", help="stop between two rounds before this time is over")
    add(
        "--table",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="print the tables of the runs in these folders, without training (the output folder)",
    )
    output(parser, Path("runs/procgen"))

    def start(arguments: argparse.Namespace) -> int | None:
        if arguments.table is not None:
            _print_tables(arguments.table or [arguments.output])
            return None

        try:
            experiments = list(planned(arguments))
        except ArgumentError as error:
            parser.error(str(error))
        make_folder(arguments.output)
        try:
            finished = train(experiments, arguments.at_a_time, arguments.time_limit)
        except KeyboardInterrupt:
            finished = False
        if not finished:
            print("Not all runs are finished; run the same command to resume.")
            return STOPPED
        _print_tables([Path(str(experiment.directory)) for experiment in experiments])
        return None

    return start


def train(
    experiments: Sequence["Experiment"], at_a_time: int, time_limit: float | None, *, whole: bool = False
) -> bool:
    """Run or resume the experiments that are not finished; return whether all are finished now.

    See `run_grid` for `whole`.
    """
    from popbandits.views.terminal import terminal_view
    from popbandits.views.view import View
    from popbandits_experiments.paper.grid import run_grid

    def view(experiment: "Experiment") -> View:
        """Return a view that fills the terminal, or, where several runs would, none."""
        return terminal_view(experiment.at_a_time) if at_a_time == 1 else View()

    return run_grid(experiments, view, time_limit=time_limit, at_a_time=at_a_time, whole=whole)


def _print_tables(directories: list[Path]) -> None:
    from popbandits.basics.wording import visible
    from popbandits_experiments.paper.procgen.replay_table import print_replay_table
    from popbandits_experiments.paper.procgen.tables import print_tables, trials

    found = trials(directories, lambda error: print(f"Left out: {visible(str(error))}"))
    print_tables(found)
    print_replay_table(found)


def _steps(text: str) -> int:
    try:
        return parse_steps(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _setting(text: str) -> tuple[str, Any]:
    """Parse a hyperparameter and its value: a number, or a label."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, such as clip=0.45, got {text!r}")
    try:
        return name, float(value)
    except ValueError:
        return name, value


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"must be above 0 seconds, got {text!r}; leave it out for no limit")
    return seconds


def _device(name: str | None) -> tuple[str, bool]:
    """Return the device and whether it is a GPU; raise ArgumentError if it is neither GPU nor CPU, or missing."""
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
        raise ArgumentError(f"device must exist, got {name!r}, but torch sees {there} GPUs; use --device cpu")
    return name, device.type == "cuda"


def _explorer(method: str, arguments: argparse.Namespace) -> "Explorer":
    """Make a method that tunes; raise ArgumentError if an option is for its model and it has none."""
    from popbandits.explorers.surrogate import ModelExplorer

    explorer = TUNED[method].make()
    asked = {"--continued-only": arguments.continued_only, "--score-before": arguments.score_before}
    if not any(asked.values()):
        return explorer
    if not isinstance(explorer, ModelExplorer):
        option = next(name for name, given in asked.items() if given)
        raise ArgumentError(f"{option} is for methods with a model, got {method}; leave one of them out")
    return replace(explorer, continued_only=arguments.continued_only, score_before=arguments.score_before)


def planned(arguments: argparse.Namespace) -> Iterator["Experiment"]:
    """Yield the requested runs, seed by seed; raise ArgumentError if one of them is wrong."""
    import popbandits.rl  # noqa: F401 - first, since it names a missing extra
    from popbandits.explorers import RandomSearch
    from popbandits.run import Experiment
    from popbandits_experiments.paper.procgen.environments import GAMES
    from popbandits_experiments.paper.procgen.task import Task, published_values, tuned_space, values_alone

    given = {name: getattr(arguments, name) for name in ("population", "steps", "interval")}
    size = replace(QUICK if arguments.quick else FULL, **{k: v for k, v in given.items() if v is not None})
    steps, interval = size.steps, size.interval
    if steps % interval:
        raise ArgumentError(f"steps must be a multiple of the interval, {interval}, got {steps}")
    device, on_gpu = _device(arguments.device)
    for what, asked, known in (("game", arguments.game, GAMES), ("method", arguments.method, LABELS)):
        if wrong := [name for name in asked if name not in known]:
            raise ArgumentError(f"{what}: unknown name {wrong[0]!r}; choose from {', '.join(known)}")
    seeds, games, methods = map(dict.fromkeys, (arguments.seed, arguments.game, arguments.method))
    if size.population < 1:
        raise ArgumentError(f"population must be at least 1, got {size.population}")
    if not set(methods) & set(TUNED) and (arguments.population or 1) > 1:
        alone = ", ".join(methods)
        raise ArgumentError(f"--population is for populations, got {size.population} for {alone}, which train alone")
    if arguments.at_a_time < 1:
        raise ArgumentError(f"--at-a-time must be at least 1, got {arguments.at_a_time}")
    levels, tuned = arguments.levels, [method for method in methods if method in TUNED]
    if levels != "uniform" and tuned and arguments.select_on == "training":
        raise ArgumentError(
            f"with --levels {levels}, members train on different levels, so their training episodes do not compare; "
            f"add --select-on validation for {tuned[0]}"
        )
    own = dict(arguments.set)
    if own and tuned:
        raise ArgumentError(f"--set is for agents alone ({', '.join(ALONE)}), got {tuned[0]}; leave one of them out")
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
            at_a_time=max(members, arguments.at_a_time),
            levels=levels,
            **size.agents,
        )
        task.settings()  # Raises now rather than in the first interval.
        experiment = Experiment(
            task,
            tuned_space(arguments.lr_scale, levels) if method in TUNED else values_alone(task.algorithm, levels, own),
            _explorer(method, arguments) if method in TUNED else RandomSearch(),
            start=[published_values(task.algorithm, levels)] if method in TUNED and arguments.start else None,
            population=members,
            rounds=task.rounds,
            seed=seed,
            directory=arguments.output / game / method / str(seed),
            engine="threads",
            name=LABELS[method],
            task=game,
        )
        _ = experiment.plan  # Raises for bad arguments before the first run.
        yield experiment
