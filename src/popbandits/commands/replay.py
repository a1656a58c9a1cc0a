"""`popbandits replay`."""

import argparse
from pathlib import Path
from typing import Any

from popbandits.basics.wording import number
from popbandits.commands.registry import Command, code_options, load_agent


def replay(parser: argparse.ArgumentParser) -> Command:
    """Train one agent from scratch along the winning schedule of a run.

    The schedule is the lineage of the checkpoint that the run hands over: its
    hyperparameters, interval by interval. With the seed of the run, a deterministic agent reaches
    the same score again; other seeds show how much of the score was luck.
    """
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run")
    code_options(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, metavar="N", help="seed of the agent (the seed of the run)")
    which.add_argument("--seeds", type=int, metavar="N", help="replay with N other seeds, 0 to N - 1")
    parser.add_argument("--save", type=Path, metavar="DIR", help="save the last checkpoint in a new folder")

    def start(arguments: argparse.Namespace) -> None:
        if arguments.seeds is not None and arguments.seeds < 1:
            parser.error(f"--seeds must be at least 1, got {arguments.seeds}")
        if arguments.seeds is not None and arguments.save is not None:
            parser.error("--save saves one agent, and --seeds trains several; give --seed instead")
        agent = load_agent(arguments.agent)
        if arguments.seeds is None:
            replay_once(arguments.run, agent, arguments.seed, arguments.save, arguments.trust)
        else:
            replay_seeds(arguments.run, agent, arguments.seeds, arguments.trust)

    return start


def replay_once(run: Path, agent: Any, seed: int | None, save: Path | None, trust: bool) -> None:
    """Replay, and print a line for each interval."""
    from popbandits.basics.records import Observation
    from popbandits.run.replay import replay as replay_run

    headed = False

    def say(observation: Observation, score: float) -> None:
        nonlocal headed
        if not headed:  # Not earlier: what cannot be replayed has no table.
            print(f"{'member, round':>14}  {'recorded':>10}  {'replayed':>10}")
            headed = True
        where = f"{observation.member}, {observation.round}"
        print(f"{where:>14}  {number(observation.score):>10}  {number(score):>10}", flush=True)

    done = replay_run(run, agent, seed, save, say, trust=trust)
    same = done.scores == tuple(observation.score for observation in done.recorded)
    comparison = "exactly as recorded" if same else f"the run recorded {done.recorded[-1].score!r}"
    print(f"\nScore {done.score!r} with seed {done.seed}: {comparison}.")
    if save is not None:
        print(f"Its checkpoint: {save}")


def replay_seeds(run: Path, agent: Any, seeds: int, trust: bool) -> None:
    """Replay with several seeds, and print the score of each, their mean and spread."""
    from statistics import mean, stdev

    from popbandits.run.replay import replay as replay_run

    scores: list[float] = []
    recorded = 0.0
    for seed in range(seeds):
        done = replay_run(run, agent, seed, trust=trust)
        recorded = done.recorded[-1].score
        scores.append(done.score)
        print(f"seed {seed}: {number(done.score)}", flush=True)
    spread = f", standard deviation {number(stdev(scores))}" if seeds > 1 else ""
    print(f"\nMean {number(mean(scores))}{spread}, from {number(min(scores))} to {number(max(scores))}.")
    print(f"The run recorded {number(recorded)}.")
