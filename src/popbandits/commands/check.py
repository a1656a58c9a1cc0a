"""`popbandits check`."""

import argparse
from typing import Any

from popbandits.commands.registry import Command, command, load_named
from popbandits.errors import ArgumentError


@command
def check(parser: argparse.ArgumentParser) -> Command:
    """Check before an expensive run that an agent keeps the contract, and what it costs.

    It trains a few intervals and checks that a checkpoint holds all state that
    matters, that new hyperparameters apply after a load, that two loads of one
    checkpoint train alike and that the score is finite. Each problem has a fix.
    """
    parser.add_argument(
        "agent",
        metavar="FILE[:NAME]",
        help="an Experiment, or a function that builds an agent from a seed: train.py:make_agent, package.module:name",
    )
    parser.add_argument("--batched", action="store_true", help="the function builds all members, from a list of seeds")
    parser.add_argument("--space", metavar="FILE:NAME", help="the search space; an Experiment has its own")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the agents and configurations (0)")

    def run_checks(arguments: argparse.Namespace) -> int:
        from popbandits.run import Experiment
        from popbandits.space import Space
        from popbandits.space.remarks import remarks
        from popbandits.testing import check_agent, check_batched

        try:
            given, space = load_named(arguments.agent), load_named(arguments.space)
        except ArgumentError as error:
            parser.error(str(error))
        agent: Any = given.agent if isinstance(given, Experiment) else given
        if space is None and not isinstance(given, Experiment):
            file = arguments.agent.rpartition(":")[0]
            parser.error(f"an agent is checked on a space, got none; give one, such as --space {file}:space")
        space = given.space if space is None else space
        batched = arguments.batched or (isinstance(given, Experiment) and given.engine == "batched")
        check: Any = check_batched if batched else check_agent
        planned: dict[str, Any] = {}
        if isinstance(given, Experiment):
            planned["population"] = given.population
            planned |= {"rounds": given.rounds} if given.rounds else {}
            planned |= {} if batched else {"engine": given.engine}
        space = Space(space() if callable(space) else space)
        explore = given.chosen.explore if isinstance(given, Experiment) else "replaced"
        for remark in remarks(space, planned.get("population", 4), explore):
            print(f"Warning: {remark}\n")
        report = check(agent, space, seed=arguments.seed, **planned)
        print(report)
        return int(not report.ok)

    return run_checks
