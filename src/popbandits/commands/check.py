"""`popbandits check`."""

import argparse
from typing import Any

from popbandits.commands.registry import Command, load_named


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
        from popbandits.space.remarks import remarks
        from popbandits.testing import check_agent, check_batched

        given, space = load_named(arguments.agent), load_named(arguments.space)
        space = space() if callable(space) else space
        if not isinstance(given, Experiment):
            if space is None:
                file = arguments.agent.rpartition(":")[0]
                parser.error(f"an agent is checked on a space, got none; give one, such as --space {file}:space")
            given = Experiment(given, space, engine="batched" if arguments.batched else "in-process")
        elif space is not None:
            given = given.changed(space=space, start=None)
        plan = given.plan
        for remark in remarks(plan.space, plan.size, plan.explore):
            print(f"Warning: {remark}\n")
        settings: dict[str, Any] = {"seed": arguments.seed, "population": plan.size}
        settings |= {"rounds": plan.rounds} if plan.rounds else {}
        agent: Any = given.agent
        if arguments.batched or given.engine == "batched":
            report = check_batched(agent, plan.space, **settings)
        else:
            report = check_agent(agent, plan.space, engine=given.engine, **settings)
        print(report)
        return int(not report.ok)

    return run_checks
