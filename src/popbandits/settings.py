"""Every setting of a run, defined once in `Settings`.

`Experiment`, `tune`, `resume`, the command-line options, the rules of the record and docs/settings.md are derived from
it. It is cheap to import, so that help answers at once.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, dataclass_transform, get_args

from popbandits.agent import MakeAgent, MakeAgents
from popbandits.docstrings import read_args
from popbandits.rules import (
    AMOUNTS,
    FLAG,
    JOB,
    JOB_AMOUNTS,
    PATH,
    RECIPE,
    SCORE,
    SHARE,
    TEXT,
    Rule,
    one_of,
    real,
    whole,
)

Mode = Literal["max", "min"]
Explore = Literal["replaced", "all"]
EngineName = Literal["in-process", "threads", "processes", "ray", "slurm", "batched"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
Keep = int | Literal["all"]
Resources = Mapping[str, float]
"""Ray resources that one member needs while it trains: `cpus`, `gpus` (fractions share one), any custom resource."""
JobOptions = Mapping[str, str | float]
"""Options of the SLURM job of an interval, by the names in `rules.JOB_OPTIONS`."""
Class = TypeVar("Class")

MEMBERS = 1_000_000
"""Maximum number of members of a run; readers of its record allocate arrays of that length."""
ROUNDS = 1_000_000_000


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


def setting(
    rule: Rule | None = None, option: Any = None, *, default: Any = MISSING, kw_only: bool = False, **more: Any
) -> Any:
    """Make a field of `Settings`; `more` are fields of `Setting`."""
    return field(default=default, kw_only=kw_only, metadata={"setting": Setting(rule, option, **more)})


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
def _listed(cls: type[Class]) -> type[Class]:
    return dataclass(frozen=True)(cls)


@_listed
class Settings:
    """List the settings of a run, in the order in which `tune` takes them. Users make an `Experiment`.

    Args:
        agent: Give a function that builds an agent from a seed, or the class itself (`popbandits.Agent` is the
            contract). With engine="batched", give a function that builds all members from a list of seeds
            (`popbandits.BatchedAgents`).
        space: Say what to tune: a dict of ranges (tuples, or `log(1e-5, 1e-1)` for a log scale), choices (lists) and
            constants, or a `ConfigurationSpace` of ConfigSpace for conditions and forbidden combinations.
        method: Choose how new configurations are found: an explorer such as `PB2Mix()`, any object with an `explore`
            method, or a name such as "pb2-mix". None (default) is `PatientPBT()`. Change it to compare methods, or for
            one that models scores ("pb2-mix"). The names "mf-pbt" and "ipbt" bring their own selection.
        population: Set the number of members. Default 4. Raise it if you can train more: more members try more.
        rounds: Set how many intervals each member trains. Default 50. Give None for a run without a set end.
        seed: Seed all random choices of the tuning. Default 0. Change it to repeat a run with other random choices.
        mode: Say which scores are better. Default "max". Use "min" for losses and errors.
        quantile: Set the share of members that is replaced in a round, above 0 and at most 0.5. None (default) uses the
            selection's own, 0.25 unless you set it there. Raise it to give up weak members sooner.
        explore: Say which members get a new configuration in a round: "replaced", those that load another's weights, or
            "all". None (default) is "replaced", unless a named method sets it. Use "all" to try more at the price of
            changing what works.
        synchronous: Let members wait for one another at the end of a round. Default True. Give False if intervals take
            unequal time: no member waits, and decisions use the results known by then.
        initial_score: Give the score of an untrained member. None (default) if unknown; it is then guessed. Give it if
            you know it, so that methods with a model learn from the first round too.
        directory: Name the folder of the run. None (default) makes a new folder in `runs`. Give one to choose its name.
        engine: Choose where members train: "in-process" (default), one after another; "threads" for agents that release
            the interpreter's lock or share a GPU; "processes" for agents in pure Python, and to end those that hang;
            "ray" for several machines; "slurm" for a SLURM job each; "batched" for agents that train all members in one
            program.
        workers: Limit how many members train at a time. None (default) is all of them with threads, Ray and SLURM, and
            one for each core with processes. Lower it if memory or the GPU is short.
        resources: Set the Ray resources of a member: `cpus` (1), `gpus` (0; fractions share one), and custom resources
            by name. None (default) is one CPU. For engine="ray" only.
        round_timeout: Limit the seconds of an interval; one that takes longer has failed. None (default) sets no limit.
            Set it if agents can hang.
        max_failures: Limit the intervals that may fail before the run ends. None (default) is any number, as long as
            others complete. Set it to stop an expensive run early.
        keep: Set how many checkpoints of each member to keep besides those needed, or "all". Default 0. Raise it if you
            want to look at earlier ones; each takes disk space.
        start: Give the first members their first configurations: one or a list of them, "defaults", a `History` or the
            folder of a run; `help(Population)` says more. None (default) draws them, spread over the space. Use it to
            begin with what you know to work.
        selection: Choose whose weights and configuration a member continues with: a selection such as `Smoothed()`, or
            a name such as "smoothed". None (default) is the method's own, or `Truncation()`. Change it if scores are
            noisy, or early scores mislead.
        name: Name the run's method in tables and reports. None (default) is the name of its method. Give one if the
            space has nothing to tune, such as "baseline".
        task: Name the task that the agents learn, such as a game. Reports compare runs of one task with one another.
            None (default) is the agent's name and settings.
        slurm: Set options of the SLURM jobs: those of sbatch such as `partition`, `account`, `gpus_per_node` and
            `cpus_per_task`; `timeout_min` (60) and `mem_gb`; `cluster="local"` runs them as processes on this machine.
            None (default) leaves the others to the cluster. For engine="slurm" only.
        callbacks: Give views that are told what happens: trackers such as `CSVTracker()`, reasons to stop such as
            `StopAtScore(0.9)`, and your own subclasses of `View`. Default (), for none. They are not on record: give
            them again to `resume`.
        progress: Show the run in the terminal. Default True. Give False for silence, or an object of a class that
            extends `View`.
    """

    agent: MakeAgent | MakeAgents = setting(_AGENT, stored=RECIPE.or_none(), resumes=True)
    space: Any = setting(recorded=False)  # The store records it.
    method: Any = setting(None, (str, "NAME"), default=None, stored=RECIPE.or_none(), resumes=True)
    population: int = setting(whole(1, MEMBERS), (int, "N"), default=4, key="size", stored=whole(1, MEMBERS).or_none())
    rounds: int | None = setting(whole(1, ROUNDS).or_none("for no set end"), (int, "N"), default=50, resumes=True)
    seed: int = setting(whole(0), (int, "N"), default=0)
    mode: Mode = setting(one_of(*get_args(Mode)), (str, "max|min"), default="max")
    quantile: float | None = setting(SHARE.or_none(), (float, "SHARE"), default=None, stored=real("a number").or_none())
    explore: Explore | None = setting(one_of(*get_args(Explore)).or_none(), (str, "replaced|all"), default=None)
    synchronous: bool = setting(FLAG, (bool, ""), default=True, flag="--asynchronous")
    initial_score: float | None = setting(SCORE.or_none("if unknown"), (float, "SCORE"), default=None)
    directory: str | Path | None = setting(PATH.or_none(), (str, "DIR"), default=None, flag="-o", recorded=False)
    # Records may also name Ray Tune, which is not one of our engines.
    engine: EngineName = setting(one_of(*ENGINES), (str, "NAME"), default="in-process", stored=TEXT, resumes=True)
    workers: int | None = setting(whole(1).or_none(), (int, "N"), default=None, resumes=True)
    resources: Resources | None = setting(AMOUNTS.or_none(), default=None, resumes=True)
    round_timeout: float | None = setting(_SECONDS.or_none(), (float, "SECONDS"), default=None, resumes=True)
    max_failures: int | None = setting(whole(0).or_none("for no limit"), (int, "N"), default=None, resumes=True)
    keep: Keep = setting(_KEEP, (lambda text: int(text) if text.isdigit() else text, "N|all"), default=0, resumes=True)
    start: Any = setting(None, (str, "defaults|RUN"), default=None)
    selection: Any = setting(None, (str, "NAME"), default=None, stored=RECIPE.or_none(), resumes=True)
    name: str | None = setting(TEXT.or_none(), (str, "TEXT"), default=None)
    task: str | None = setting(TEXT.or_none(), (str, "TEXT"), default=None)
    slurm: JobOptions | None = setting(
        JOB.or_none(), (read_options, "NAME=VALUE,…"), default=None, kw_only=True, resumes=True
    )
    callbacks: Any = setting(default=(), kw_only=True, recorded=False, resumes=True)
    progress: Any = setting(default=True, kw_only=True, recorded=False)

    def __post_init__(self) -> None:
        for name in SETTINGS:
            check(name, getattr(self, name))


SETTINGS: dict[str, Setting] = {
    each.name: replace(known := each.metadata["setting"], key=known.key or each.name, stored=known.stored or known.rule)
    for each in fields(Settings)
}
TEXTS = read_args(Settings)
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
