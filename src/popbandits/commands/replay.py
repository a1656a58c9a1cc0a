"""`popbandits replay`."""

import argparse
from pathlib import Path

from popbandits.agent import MakeAgent
from popbandits.commands.registry import Command, agent_option, command, loaded, trust_option
from popbandits.errors import ArgumentError


@command
def replay(parser: argparse.ArgumentParser) -> Command:
    """Train one agent from scratch along the winning schedule of a run.

    The schedule is the lineage that ends with the best score: which hyperparameters
    in which interval. With the seed that the run used, an agent that depends on
    nothing else scores the same again; with others one sees how much was luck.
    """
    parser.add_argument("run", type=Path, metavar="RUN", help="its folder")
    agent_option(parser)
    trust_option(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, metavar="N", help="of the agent (the one that the run used)")
    which.add_argument("--seeds", type=int, metavar="N", help="replay with N other seeds, 0 to N - 1")
    parser.add_argument("--save", type=Path, metavar="DIR", help="keep the checkpoint at the end, in a new folder")

    def start(arguments: argparse.Namespace) -> None:
        if arguments.seeds is not None and arguments.seeds < 1:
            parser.error(f"--seeds must be at least 1, got {arguments.seeds}")
        if arguments.seeds is not None and arguments.save is not None:
            parser.error("--save keeps one agent, and --seeds trains several; give --seed instead")
        try:
            agent = loaded(arguments.agent)
        except ArgumentError as error:
            parser.error(f"--agent: {error}")
        if arguments.seeds is None:
            once(arguments.run, agent, arguments.seed, arguments.save, arguments.trust)
        else:
            several(arguments.run, agent, arguments.seeds, arguments.trust)

    return start


def once(run: Path, agent: MakeAgent, seed: int | None, save: Path | None, trust: bool) -> None:
    """Replay, with a line for each interval."""
    from popbandits.history import Observation
    from popbandits.run.replay import replay as replay_run
    from popbandits.wording import number

    def say(observation: Observation, score: float) -> None:
        where = f"{observation.member}, {observation.round}"
        print(f"{where:>14}  {number(observation.score):>10}  {number(score):>10}", flush=True)

    print(f"{'member, round':>14}  {'recorded':>10}  {'replayed':>10}", flush=True)
    done = replay_run(run, agent, seed, save, say, trust=trust)
    same = done.scores == tuple(observation.score for observation in done.recorded)
    beside = "exactly as recorded" if same else f"recorded was {done.recorded[-1].score!r}"
    print(f"\nScore {done.score!r} with seed {done.seed}: {beside}.")
    if save is not None:
        print(f"Its checkpoint: {save}")


def several(run: Path, agent: MakeAgent, seeds: int, trust: bool) -> None:
    """Replay with several seeds: the score of each, their mean and spread."""
    from statistics import mean, stdev

    from popbandits.run.replay import replay as replay_run
    from popbandits.wording import number

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
