"""`popbandits demo`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from popbandits.basics.wording import counted, number, setting
from popbandits.commands.registry import STOPPED, Command

if TYPE_CHECKING:
    from popbandits.run import Result


def demo(parser: argparse.ArgumentParser) -> Command:
    """See it work: tune a PPO agent while it trains, and compare with random search.

    Four agents learn to land on the moon, in three to four minutes. Learning
    rate, clipping, entropy bonus, GAE's lambda, epochs and the optimizer with its
    own settings are tuned meanwhile, over wide ranges; the first agent begins with
    the usual settings. Random search gets the same start and budget; one agent that
    keeps the usual settings gets the budget of one member. What each hands over
    is then scored on fresh episodes. The command prints the winning schedule,
    the three scores and the folder that holds everything.

    It needs torch and EnvPool: pip install 'popbandits[rl]'
    """
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of everything random (0)")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder to write to (a new one in runs)")

    def play(arguments: argparse.Namespace) -> int | None:
        from popbandits.rl import demo as task
        from popbandits.run import Result, tune
        from popbandits.run.tune import new_folder

        folder = arguments.output or new_folder("demo")
        runs = {
            "tuned": ("Near PBT", task.space(), "near-pbt", task.POPULATION),
            "random": ("random search", task.space(), "random", task.POPULATION),
            "untuned": ("the usual settings", task.DEFAULTS, "random", 1),  # There is nothing to search.
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
                start=[task.DEFAULTS],
                evaluations=task.EVALUATIONS,
                engine="processes" if members > 1 else "in-process",  # One member needs no worker process.
            )
            if not results[name].done:
                return STOPPED
            print()
        print("The winning schedule, with the values that changed:\n")
        print_schedule(results["tuned"])
        print(
            "\nMean return of each checkpoint that was handed over, in fresh episodes (200 counts as solved):\n",
            flush=True,
        )
        for name, result in results.items():
            score = task.evaluate(result.checkpoint, seed=arguments.seed)
            print(f"  {runs[name][0]:<20}{number(score):>10}", flush=True)
        print(f"\nEverything is in {folder}: try `popbandits replay {folder / 'tuned'}`.")
        return None

    return play


def print_schedule(result: "Result") -> None:
    """Print each interval of the lineage that a run hands over: its score, and its new values."""
    print(f"{'member, round':>14}  {'score':>10}")
    history, before = result.history, dict[str, Any]()
    for each in history.lineage(result.choice.observation):
        now = history.space.flatten(history.applied(each))
        new = (f"{name}={setting(value)}" for name, value in now.items() if before.get(name) != value)
        where = f"{each.member}, {each.round}"
        print(f"{where:>14}  {number(each.score):>10}  {' '.join(new)}".rstrip())
        before = now
