"""The plan that `popbandits run --dry-run` prints."""

from collections.abc import Sequence
from pathlib import Path

from popbandits.basics.settings import SETTINGS
from popbandits.basics.wording import counted, duration, number
from popbandits.run import Experiment
from popbandits.run.tune import is_taken
from popbandits.space.remarks import remarks
from popbandits.storage.disk import resume_command

TOLD = {"agent", "space", "method", "population", "rounds", "seed", "mode", "quantile", "explore", "synchronous"}
TOLD |= {"directory", "engine", "workers", "round_timeout", "start", "selection", "callbacks", "progress"}
"""Settings that a plan describes in words; it prints the values of the others."""


def print_plan(experiment: Experiment) -> int:
    """Print what would run; return the exit status, 1 if its folder is taken."""
    plan = experiment.plan
    where = experiment.directory
    others = {name: getattr(experiment, name) for name in SETTINGS if name not in TOLD}
    print("Would run:")
    print_columns(
        [
            ("agent", getattr(experiment.agent, "__qualname__", repr(experiment.agent))),
            ("method", repr(plan.method)),
            ("population", f"{counted(plan.size, 'member')}, {_exploring(experiment)}"),
            ("selection", repr(plan.selection)),
            ("start", _start(experiment)),
            ("budget", _budget(experiment)),
            ("scores", "more is better" if experiment.mode == "max" else "less is better"),
            ("seed", str(experiment.seed)),
            ("engine", f"{experiment.engine}, {experiment.at_a_time} at a time"),
            ("folder", "a new one in runs" if where is None else str(where)),
            *((name, str(value)) for name, value in others.items() if value is not None),
        ]
    )
    print("\nOn the space:")
    print_columns(plan.space.rules())
    for remark in remarks(plan.space, plan.size, plan.explore):
        print(f"\nWarning: {remark}")
    taken = where is not None and is_taken(Path(where))
    if taken:
        command = resume_command(str(where))
        print(f"\nIt cannot run: {where} already holds a run; give another folder with -o, or resume it: {command}")
    return int(taken)


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with their columns aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _exploring(experiment: Experiment) -> str:
    who = "replaced members explore" if experiment.plan.explore == "replaced" else "all members explore"
    when = "in rounds" if experiment.synchronous else "each at its own pace"
    return f"{who}, {when}"


def _start(experiment: Experiment) -> str:
    if not (start := experiment.plan.start):
        return "random configurations; if you have settings that work, give them as start="
    source = start[0].decision["start"]
    label = {"given": "given configurations", "defaults": "the defaults"}.get(source, source)
    prior = experiment.plan.space.prior
    how = "random" if prior is None or prior.uniform else "around it"
    said = f"{counted(len(start), 'member')} from {label}, {experiment.population - len(start)} {how}"
    kept = ["member 0 keeps it to the end"] if experiment.plan.control else []
    tables = experiment.plan.space.schedules.items()
    followed = [f"all follow {name} from {number(table[0])} to {number(table[-1])}" for name, table in tables]
    return "; ".join([said, *kept, *followed])


def _budget(experiment: Experiment) -> str:
    if experiment.rounds is None:
        return "no set end"
    intervals = experiment.population * experiment.rounds
    limit = experiment.round_timeout
    longest = "" if limit is None else f", at most {duration(limit)} each"
    return f"{counted(experiment.rounds, 'round')}, {counted(intervals, 'interval')} of training{longest}"
