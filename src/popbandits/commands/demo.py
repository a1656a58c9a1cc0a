"""`popbandits demo`."""

import argparse
from pathlib import Path

from popbandits.commands.registry import STOPPED, Command, command


@command
def demo(parser: argparse.ArgumentParser) -> Command:
    """See it work: tune a PPO agent while it trains, beside random search.

    Four agents learn to land on the moon, for two minutes and a half in all. Learning
    rate, clipping, entropy bonus, GAE's lambda, epochs and the optimizer with its
    own settings are tuned on the way, over wide ranges. Random search gets the same
    budget, and one agent with the usual settings that of a member. What each hands
    over, its best checkpoint, is then scored on fresh episodes. It prints the
    schedule that won, the three scores, and where everything is kept.

    It needs torch and EnvPool: pip install 'popbandits[rl]'
    """
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of everything random (0)")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="where to keep it (a new folder in runs)")

    def play(arguments: argparse.Namespace) -> int | None:
        from popbandits.explorers import PatientPBT, RandomSearch
        from popbandits.reports.schedule import print_schedule
        from popbandits.rl import demo as task
        from popbandits.run import Result, tune
        from popbandits.wording import counted, number

        folder = arguments.output or new_folder(Path("runs"), "demo")
        runs = {
            "tuned": ("Patient PBT", task.space(), PatientPBT(), task.POPULATION),
            "random": ("random search", task.space(), RandomSearch(), task.POPULATION),
            "untuned": ("the usual settings", task.DEFAULTS, RandomSearch(), 1),  # There is nothing to search.
        }
        results: dict[str, Result] = {}
        for name, (label, space, method, members) in runs.items():
            print(f"{label}, {counted(members, 'member')}, {task.ROUNDS} rounds:", flush=True)
            results[name] = tune(
                task.make_agent,
                space,
                method,
                population=members,
                rounds=task.ROUNDS,
                seed=arguments.seed,
                directory=folder / name,
                engine="processes" if members > 1 else "in-process",  # One alone need not wait for a worker to start.
            )
            if not results[name].done:
                return STOPPED
            print()
        print("The schedule that won; empty where a value stays as it was:\n")
        print_schedule(results["tuned"].history)
        print("\nMean return of the best checkpoint of each, in fresh episodes (200 counts as solved):\n", flush=True)
        for name, result in results.items():
            score = task.evaluate(result.checkpoint, seed=arguments.seed)
            print(f"  {runs[name][0]:<20}{number(score):>10}", flush=True)
        print(f"\nEverything is kept in {folder}: try `popbandits replay {folder / 'tuned'}`.")
        return None

    return play


def new_folder(where: Path, name: str) -> Path:
    """A folder that does not exist yet."""
    path, number = where / name, 1
    while path.exists():
        number += 1
        path = where / f"{name}-{number}"
    return path
