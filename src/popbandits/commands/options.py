"""The fields of an experiment as options of the command line."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from popbandits.methods import METHODS, SELECTIONS, find_method

if TYPE_CHECKING:
    from popbandits.run import Experiment


def how(parser: argparse.ArgumentParser) -> None:
    """What may differ from one start of a run to the next."""
    add = parser.add_argument_group("how it runs").add_argument
    add("--rounds", type=int, metavar="N", help="intervals of training of each member")
    add("--engine", metavar="NAME", help="in-process, threads, processes, ray or batched")
    add("--workers", type=int, metavar="N", help="members that train at a time")
    add("--round-timeout", type=float, metavar="SECONDS", help="an interval that takes longer has failed")
    add("--max-failures", type=int, metavar="N", help="the run ends when more intervals than these have failed")
    add("--keep", type=_keep, metavar="N|all", help="checkpoints of each member to keep beyond those that are needed")


def what(parser: argparse.ArgumentParser) -> None:
    """What makes a run this run."""
    add = parser.add_argument_group("what is tuned, and how").add_argument
    add("--method", metavar="NAME", help=f"one of {', '.join(METHODS)}")
    add("--population", type=int, metavar="N", help="members")
    add("--seed", type=int, metavar="N", help="of everything random")
    add("--mode", metavar="max|min", help="which scores are better")
    add("--quantile", type=float, metavar="SHARE", help="the share of members that are replaced in a round")
    add("--selection", metavar="NAME", help=f"who goes on from whose weights: one of {', '.join(SELECTIONS)}")
    add("--explore", metavar="replaced|all", help="who tries something new in a round")
    add("--initial-score", type=float, metavar="SCORE", help="what an agent scores before any training")
    add("--start", metavar="defaults|RUN", help="begin with the space's defaults, or with what won in a past run")
    add("--asynchronous", dest="synchronous", action="store_const", const=False, help="nobody waits for others")
    add("--synchronous", dest="synchronous", action="store_const", const=True, help="rounds end together")
    add("--name", metavar="TEXT", help="what tables and reports call the method")
    add("--task", metavar="TEXT", help="what tables and reports call the task")
    add("-o", "--directory", metavar="DIR", help="where the run is kept")


def changes(arguments: argparse.Namespace, *more: str) -> dict[str, Any]:
    """The options of `how` that were given, and others by name."""
    names = ("rounds", "engine", "workers", "round_timeout", "max_failures", "keep", *more)
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def changed(experiment: "Experiment", arguments: argparse.Namespace) -> "Experiment":
    """The experiment with the options that were given; ArgumentError if one of them is wrong."""
    given = changes(
        arguments,
        *("method", "population", "seed", "mode", "explore", "initial_score", "synchronous", "directory", "start", "name", "task"),
    )
    selection = arguments.selection
    if arguments.method is not None:  # Who explores, and a selection that it brings, stand above the experiment's.
        given = {"explore": None} | given
        selection = selection or find_method(arguments.method).selection
    given |= _selected(experiment, selection, arguments.quantile)
    experiment = replace(experiment, **given)
    experiment.make_population()  # Complains about what only a population can judge.
    return experiment


def _selected(experiment: "Experiment", name: str | None, quantile: float | None) -> dict[str, Any]:
    """The selection and its quantile, as far as they change; a quantile stays with another selection."""
    from popbandits.errors import ArgumentError

    if name is None and (quantile is None or experiment.selection is None):
        return {} if quantile is None else {"quantile": quantile}
    before: Any = experiment.chosen.selection
    if quantile is None:
        quantile = getattr(before, "quantile", None)
    if name is None:
        if not hasattr(before, "quantile"):
            raise ArgumentError(f"quantile: {type(before).__name__} has none, got {quantile}; leave it out")
        return {"selection": replace(before, quantile=quantile), "quantile": None}
    return {"selection": name, "quantile": quantile}


def _keep(text: str) -> int | str:
    return text if text == "all" else int(text)


_keep.__name__ = "number"  # As argparse names it when it is wrong.
