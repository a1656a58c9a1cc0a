"""Runs grouped by task and method, and their scores."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from popbandits.basics.wording import counted, setting
from popbandits.history.frame import flat, text
from popbandits.reports.run import MAX_LABEL_CHARS, Run, describe_config, label_names
from popbandits.reports.status import selection_name
from popbandits.space.parameters import Numerical

ALGORITHM_SETTING = "algorithm"
"""The agent's setting that names its learning algorithm: part of a run's method, not of its task."""

TASK_SETTINGS = ("task", "game", "env", "environment")
"""Agent settings that name the task, if the run does not."""

DEVICE_SETTINGS = ("device", "at_a_time")
"""Agent settings of where it trains: they do not change the task, though devices round differently."""

SCORE_MODE = "score mode"
"""Name of the setting that tells tasks apart whose scores go opposite ways."""

FINAL_SCORE = "Final score"
"""Name of the measure that every run has."""

RunsByTask = Mapping[str, Mapping[str, Sequence[Run]]]
"""Runs by task, then by method."""


def methods_of(tasks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """List the methods of all tasks, each once."""
    return list(dict.fromkeys(method for groups in tasks.values() for method in groups))


def group_runs(runs: Iterable[Run], by: str = "method") -> dict[str, dict[str, list[Run]]]:
    """Group runs by task, then by method or another of `GROUPINGS`: both are named by what differs among these runs.

    Agents with tuned and with fixed settings learn the same task.
    """
    runs = list(runs)
    described = GROUPINGS[by]
    # A task's settings that older runs do not record say nothing about a difference.
    tasks = _named([_task(run) for run in runs], recorded=True)
    # Two tasks of one name are distinguished by their spaces.
    spaces: dict[str, list[str]] = {}
    for task, run in zip(tasks, runs, strict=True):
        if not run.space.fixed and (space := run.space.to_json()) not in spaces.setdefault(task, []):
            spaces[task].append(space)
    tasks = [
        f"{task} (space {spaces[task].index(run.space.to_json()) + 1})"
        if not run.space.fixed and len(spaces[task]) > 1 and by != "space"
        else task
        for task, run in zip(tasks, runs, strict=True)
    ]
    methods = _named([described(run) for run in runs])
    result: dict[str, dict[str, list[Run]]] = {}
    for task, method, run in sorted(zip(tasks, methods, runs, strict=True), key=lambda one: one[:2]):
        result.setdefault(task, {}).setdefault(method, []).append(run)
    return result


def _task(run: Run) -> dict[str, Any]:
    agent = run.about.get("agent") or {}
    where = next((str(v) for k, v in agent.items() if k != "settings"), "")
    settings = _settings(run, "agent")
    called = next((str(settings[name]) for name in TASK_SETTINGS if name in settings), "")
    for name in (ALGORITHM_SETTING, *TASK_SETTINGS, *DEVICE_SETTINGS):
        settings.pop(name, None)
    name = str(run.about.get("task") or called or where.rpartition(":")[2] or "task")
    return {"": name, **settings, SCORE_MODE: "max" if run.sign > 0 else "min"}


def _method(run: Run) -> dict[str, Any]:
    described = {
        "": run.method,
        ALGORITHM_SETTING: _settings(run, "agent").get(ALGORITHM_SETTING),
        "size": run.about.get("size"),
    }
    if run.space.fixed:
        return described | run.space.flatten(run.history[0].config)
    others = ("quantile", "explore", "synchronous")
    described["selection"] = selection_name(run.about)
    return described | _settings(run, "method") | {name: run.about.get(name) for name in others}


def _start(run: Run) -> str:
    first = run.history.find((0, 0)) if run.about.get("start") else None
    return "random start" if first is None else f"start {describe_config(run.space, first.config)}"


def _ranges(run: Run) -> dict[str, Any]:
    numbers = {p.name: p.labels or _range(p) for p in run.space.numerical}
    return {"": "space", **numbers, **{choice.name: choice.labels for choice in run.space.categorical}}


def _range(number: Numerical) -> str:
    kind = "log " * number.log + "whole " * (number.kind == "integer")
    return f"{kind}{setting(number.lower)} to {setting(number.upper)}"


GROUPINGS: dict[str, Callable[[Run], dict[str, Any]]] = {
    "method": _method,
    "run": lambda run: {"": run.name, "in": str(run.directory.parent)},
    "size": lambda run: {"": counted(run.size, "member")},
    "space": _ranges,
    "start": lambda run: {"": _start(run)},
}
"""What a comparison can be grouped by: a name, and settings that tell groups of one name apart."""


def _settings(run: Run, what: str) -> dict[str, Any]:
    return flat((run.about.get(what) or {}).get("settings") or {}, "")


def _named(described: Sequence[Mapping[str, Any]], *, recorded: bool = False) -> list[str]:
    """Name each description: its own name, and the settings that differ among descriptions of the same name.

    With `recorded`, only descriptions that have a setting are compared by it.

    >>> _named([{"": "PBT"}, {"": "PB2-Mix", "window": 9}, {"": "PB2-Mix", "window": None}])
    ['PBT', 'PB2-Mix, window 9', 'PB2-Mix, window None']
    >>> _named([{"": "bigfish"}, {"": "bigfish", "difficulty": "easy"}], recorded=True)
    ['bigfish', 'bigfish']
    """
    names = []
    for one in described:
        alike = [other for other in described if other[""] == one[""]]
        differ = [
            key
            for key in one
            if key and len({text(other.get(key)) for other in alike if key in other or not recorded}) > 1
        ]
        parts = (f"{key} {text(one[key])}" for key in differ)
        names.append(", ".join([one[""], *parts]))
    different = tuple(dict.fromkeys(names))
    begins = Counter(name[: MAX_LABEL_CHARS - 1] for name in different)
    # Long ones, such as folders, may differ at their ends alone.
    told = tuple(name if begins[name[: MAX_LABEL_CHARS - 1]] == 1 else _both_ends(name) for name in different)
    short = dict(zip(different, label_names(told), strict=True))
    return [short[name] for name in names]


def _both_ends(name: str) -> str:
    """Shorten a name in its middle."""
    half = MAX_LABEL_CHARS // 2
    return name if len(name) <= MAX_LABEL_CHARS else f"{name[: half - 1]}…{name[-half:]}"


def score_tables(tasks: RunsByTask) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return the final score, and metrics named `test...`, of each run's best member: by measure, task and method."""
    runs = [run for groups in tasks.values() for members in groups.values() for run in members]
    reported = [set(_numbers(run)) for run in runs if run.final is not None]
    measures = sorted(name for name in set.intersection(*reported) if name.startswith("test")) if reported else []
    return {
        measure: {
            task: {method: _values(members, measure) for method, members in groups.items()}
            for task, groups in tasks.items()
        }
        for measure in ([FINAL_SCORE] if reported else []) + measures
    }


def _values(runs: Sequence[Run], measure: str) -> list[float]:
    """Return a measure of the runs that have it."""
    return [numbers[measure] for numbers in map(_numbers, runs) if measure in numbers]


def _numbers(run: Run) -> dict[str, float]:
    """Return the score and the numerical metrics of the member that is best at the end."""
    if run.final is None:
        return {}
    metrics = flat(run.final.metrics, "") | {FINAL_SCORE: run.final.score}
    return {k: float(v) for k, v in metrics.items() if type(v) in (int, float) and math.isfinite(v)}
