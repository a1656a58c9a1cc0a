"""The settings of a run: their rules and options, whether they are on record, and whether a resume may change them.

`Experiment` has their types, defaults and texts; `tune`, `resume` and `Population` repeat those of the settings that
they take, and tests/basics/test_settings.py compares them. This module is cheap to import: help answers at once.
"""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from popbandits.basics.rules import FLAG, PATH, SCORE, SHARE, Rule, one_of, real, whole

Mode = Literal["max", "min"]
Explore = Literal["replaced", "all"]
EngineName = Literal["in-process", "threads", "processes", "ray", "slurm", "batched"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
Keep = int | Literal["all"]
Resources = Mapping[str, float]
"""Ray resources that one member needs while it trains: `cpus`, `gpus` (fractions share one), any custom resource."""
JobOptions = Mapping[str, str | float]
"""Options of the SLURM job of an interval, by the names in JOB_OPTIONS."""

MEMBERS = 1_000_000
"""Maximum number of members of a run; readers of its record allocate arrays of that length."""
ROUNDS = 1_000_000_000
CONTROL = 0
"""Number of the member that stays on the start, if a run has a control."""

TEXT = Rule(lambda value: isinstance(value, str) and bool(value.strip()), "a text")
_POSITIVE = real("above 0", lambda number: 0 < number < math.inf)
_AMOUNT = real("at least 0", lambda number: number >= 0)
AMOUNTS = Rule(
    lambda value: (
        isinstance(value, Mapping)
        and all(map(_AMOUNT.holds, value.values()))
        and not {"cpu", "gpu"} & {str(name).lower() for name in value}
    ),  # Ray would wait for such a resource.
    "a dict of amounts of at least 0, with cpus and gpus in the plural",
)
SBATCH: tuple[str, ...] = (
    *("partition", "account", "qos", "constraint", "gres", "gpus_per_node", "cpus_per_task", "mem_per_cpu"),
    *("mem_per_gpu", "nodelist", "exclude", "reservation", "licenses", "nice", "comment", "mail_type", "mail_user"),
)
JOB_AMOUNTS = ("timeout_min", "mem_gb")
JOB_OPTIONS = ("cluster", *JOB_AMOUNTS, *SBATCH)


def _is_job_option(name: Any, value: Any) -> bool:
    """Tell whether the options of a job may hold this one. A record may: so no commands and no files, and one line."""
    if name in JOB_AMOUNTS:
        return _POSITIVE.holds(value)
    if name == "cluster":
        return value in ("slurm", "local")
    return name in SBATCH and (whole(0).holds(value) or (TEXT.holds(value) and value.isprintable()))


JOB = Rule(
    lambda value: isinstance(value, Mapping) and all(_is_job_option(*pair) for pair in value.items()),
    f"a dict of texts of one line and numbers, with names of {', '.join(JOB_OPTIONS)}",
)


def _is_recipe(value: Any) -> bool:
    """Tell whether a value is a dict of strings, except for its settings and parts, which are dicts."""
    return isinstance(value, Mapping) and all(
        isinstance(one, Mapping if name in ("settings", "parts") else str) for name, one in value.items()
    )


RECIPE = Rule(_is_recipe, "a recipe")


def read_options(text: str) -> dict[str, str | float]:
    """Read options of a job from one word of the command line. What has no value breaks the rule of the setting.

    >>> read_options("partition=gpu,nodelist=n1,n2,account=007,timeout_min=90,mem_gb=1.5")
    {'partition': 'gpu', 'nodelist': 'n1,n2', 'account': '007', 'timeout_min': 90, 'mem_gb': 1.5}
    """
    pairs = (pair.partition("=")[::2] for pair in re.split(r",(?=\w+=)", text))
    return {name: _number(value) if name in JOB_AMOUNTS else value for name, value in pairs}


def _number(text: str) -> str | float:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


_AGENT = Rule(callable, "callable: make_agent(seed) builds an agent", "give the class itself, or a function")
_SECONDS = real("above 0 seconds", lambda number: number > 0)
_KEEP = Rule(lambda value: value == "all" or whole(0).holds(value), f"{whole(0).words}, or 'all'")


@dataclass(frozen=True)
class Setting:
    """Properties of a setting besides its name, type, default and text."""

    rule: Rule | None = None
    """None if the code that uses the value checks it."""
    option: tuple[Callable[[str], Any], str] | None = None
    """Parser of its command-line option, and the name of the value in help; `bool` makes a pair of flags."""
    flag: str | None = None
    """Another flag of the option: a short one, or the one that turns a pair off."""
    key: str = ""
    """Its name in the record and in `Population`, if that differs."""
    stored: Rule | None = None
    """Rule for the recorded value, if it differs from `rule`."""
    recorded: bool = True
    resumes: bool = False
    """True if a resume may change it."""


_SETTINGS = {
    "agent": Setting(_AGENT, stored=RECIPE.or_none(), resumes=True),
    "space": Setting(recorded=False),  # The store records it.
    "method": Setting(option=(str, "NAME"), stored=RECIPE.or_none(), resumes=True),
    "population": Setting(whole(1, MEMBERS), (int, "N"), key="size", stored=whole(1, MEMBERS).or_none()),
    "rounds": Setting(whole(1, ROUNDS).or_none("for no set end"), (int, "N"), resumes=True),
    "seed": Setting(whole(0), (int, "N")),
    "mode": Setting(one_of(*get_args(Mode)), (str, "max|min")),
    "quantile": Setting(SHARE.or_none(), (float, "SHARE"), stored=real("a number").or_none()),
    "explore": Setting(one_of(*get_args(Explore)).or_none(), (str, "replaced|all")),
    "synchronous": Setting(FLAG, (bool, ""), flag="--asynchronous"),
    "initial_score": Setting(SCORE.or_none("if unknown"), (float, "SCORE")),
    "directory": Setting(PATH.or_none(), (str, "DIR"), flag="-o", recorded=False),
    # Records may also name Ray Tune, which is not one of our engines.
    "engine": Setting(one_of(*ENGINES), (str, "NAME"), stored=TEXT, resumes=True),
    "workers": Setting(whole(1).or_none(), (int, "N"), resumes=True),
    "resources": Setting(AMOUNTS.or_none(), resumes=True),
    "round_timeout": Setting(_SECONDS.or_none(), (float, "SECONDS"), resumes=True),
    "max_failures": Setting(whole(0).or_none("for no limit"), (int, "N"), resumes=True),
    "keep": Setting(_KEEP, (lambda text: int(text) if text.isdigit() else text, "N|all"), resumes=True),
    "start": Setting(option=(str, "defaults|RUN")),
    "selection": Setting(option=(str, "NAME"), stored=RECIPE.or_none(), resumes=True),
    "name": Setting(TEXT.or_none(), (str, "TEXT")),
    "task": Setting(TEXT.or_none(), (str, "TEXT")),
    "slurm": Setting(JOB.or_none(), (read_options, "NAME=VALUE,…"), resumes=True),
    "control": Setting(FLAG.or_none(), (bool, ""), stored=FLAG),
    "evaluations": Setting(whole(0), (int, "N"), resumes=True),
    "max_cost": Setting(_POSITIVE.or_none("for no limit"), (float, "COST"), resumes=True),
    "callbacks": Setting(recorded=False, resumes=True),
    "progress": Setting(recorded=False),
}
SETTINGS = {
    name: replace(each, key=each.key or name, stored=each.stored or each.rule) for name, each in _SETTINGS.items()
}
CHANGEABLE = [name for name, each in SETTINGS.items() if each.resumes]
"""The settings that a resume may change."""


def flags_of(name: str) -> list[str]:
    """Return the flags of a setting's option; in a pair, the one that turns it on comes first."""
    flag, other = f"--{name.replace('_', '-')}", SETTINGS[name].flag
    if (option := SETTINGS[name].option) is not None and option[0] is bool:
        return [flag, other or f"--no-{flag[2:]}"]
    return [flag] if other is None else [other, flag]


def check(name: str, value: Any, argument: str | None = None) -> None:
    """Raise ArgumentError if a setting's value breaks its rule; `argument` is the user's name for it, if different."""
    if (rule := SETTINGS[name].rule) is not None:
        rule.check(argument or name, value)
