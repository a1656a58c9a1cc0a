"""`popbandits check`."""

import argparse
from typing import Any

from popbandits.commands.registry import Command, command, loaded
from popbandits.errors import ArgumentError


@command
def check(parser: argparse.ArgumentParser) -> Command:
    """Try an agent before an expensive run: does it keep the contract, what does it cost?

    It trains a few intervals and looks at what comes of them: a checkpoint holds
    all that matters, the new hyperparameters hold after a load, two loads of one
    checkpoint train alike, the score is finite. Every problem comes with a fix.
    """
    parser.add_argument(
        "agent",
        metavar="FILE[:NAME]",
        help="an Experiment, or what builds an agent from a seed: train.py:make_agent, package.module:name",
    )
    parser.add_argument("--batched", action="store_true", help="it builds all members, from a list of seeds")
    parser.add_argument("--space", metavar="FILE:NAME", help="what it is tuned on; an Experiment brings its own")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the agents and configurations (0)")

    def try_it(arguments: argparse.Namespace) -> int:
        from popbandits.run import Experiment
        from popbandits.space import Space
        from popbandits.space.remarks import remarks
        from popbandits.testing import check_agent, check_batched

        try:
            given, space = loaded(arguments.agent), loaded(arguments.space)
        except ArgumentError as error:
            parser.error(str(error))
        agent: Any = given.agent if isinstance(given, Experiment) else given
        if space is None and not isinstance(given, Experiment):
            file = arguments.agent.rpartition(":")[0]
            parser.error(f"an agent is tried on a space, got none; give it, such as --space {file}:space")
        space = given.space if space is None else space
        batched = arguments.batched or (isinstance(given, Experiment) and given.engine == "batched")
        check: Any = check_batched if batched else check_agent
        planned = {}
        if isinstance(given, Experiment):
            planned = {"population": given.population} | ({"rounds": given.rounds} if given.rounds else {})
        space = Space(space() if callable(space) else space)
        explore = given.chosen.explore if isinstance(given, Experiment) else "replaced"
        for remark in remarks(space, planned.get("population", 4), explore):
            print(f"Warning: {remark}\n")
        report = check(agent, space, seed=arguments.seed, **planned)
        print(report)
        return int(not report.ok)

    return try_it
