"""Runs grouped by task and method, and the paper's tables of them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from popbandits.basics.wording import number
from popbandits.history.frame import flat, text
from popbandits.reports.run import MAX_LABEL_CHARS, Run, shorten
from popbandits.reports.stats import deviation, welch
from popbandits.reports.status import selection_name

BASELINES = ("PB2-Rand", "PBT")
"""Methods that the others are tested against: the paper's choice, then its nearest; else the first method."""

ALGORITHM_SETTING = "algorithm"
"""The agent's setting that names its learning algorithm: part of a run's method, not of its task."""

TASK_SETTINGS = ("task", "game", "env", "environment")
"""Agent settings that name the task, if the run does not."""

DEVICE_SETTINGS = ("device", "at_a_time")
"""Agent settings of where it trains: they do not change the task, though devices round differently."""

RunsByTask = Mapping[str, Mapping[str, Sequence[Run]]]
"""Runs by task, then by method."""


@dataclass(frozen=True)
class Cell:
    """The result of a method on a task."""

    values: tuple[float, ...]
    best: bool
    """Bold: at least two runs, within one standard deviation, the best method's, of the best mean."""
    p: float
    """p-value of Welch's t-test that the baseline has the same mean; NaN if it cannot be computed."""
    better: bool
    """True if the mean is on the better side of the baseline's."""

    @property
    def mean(self) -> float:
        """Mean over runs."""
        return float(np.mean(self.values))

    @property
    def starred(self) -> bool:
        """Better than the baseline with p < 0.05."""
        return self.better and self.p < 0.05

    def __str__(self) -> str:
        spread = deviation(self.values)
        return number(self.mean) if math.isnan(spread) else f"{number(self.mean)} ± {number(spread, 2)}"


@dataclass(frozen=True)
class ScoreTable:
    """The paper's table: mean ± standard deviation by task and method, and normalised over all tasks."""

    measure: str
    baseline: str
    methods: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Cell]]
    normalised: Mapping[str, Cell]
    """Percent of the baseline's mean on the same task; empty where that is meaningless."""


def methods_of(tasks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """List the methods of all tasks, each once."""
    return list(dict.fromkeys(method for groups in tasks.values() for method in groups))


def group_runs(runs: Iterable[Run]) -> dict[str, dict[str, list[Run]]]:
    """Group runs by task, then by method: both are named by what differs among these runs.

    Agents with tuned and with fixed settings learn the same task.
    """
    runs = list(runs)
    # A task's settings that older runs do not record say nothing about a difference.
    tasks = _named([_task(run) for run in runs], recorded=True)
    # Two tasks of one name are distinguished by their spaces.
    spaces: dict[str, list[str]] = {}
    for task, run in zip(tasks, runs, strict=True):
        if not run.space.fixed and (space := run.space.to_json()) not in spaces.setdefault(task, []):
            spaces[task].append(space)
    tasks = [
        f"{task} (space {spaces[task].index(run.space.to_json()) + 1})"
        if not run.space.fixed and len(spaces[task]) > 1
        else task
        for task, run in zip(tasks, runs, strict=True)
    ]
    methods = _named([_method(run) for run in runs])
    result: dict[str, dict[str, list[Run]]] = {}
    for task, method, run in sorted(zip(tasks, methods, runs, strict=True), key=lambda one: one[:2]):
        result.setdefault(task, {}).setdefault(method, []).append(run)
    return result


def _task(run: Run) -> dict[str, Any]:
    agent = run.about.get("agent") or {}
    where = next((str(v) for k, v in agent.items() if k != "settings"), "")
    settings = _settings(run, "agent")
    called = next(
        (str(settings[name]) for name in TASK_SETTINGS if name in settings), where.rpartition(":")[2] or "task"
    )
    settings = {
        name: value
        for name, value in settings.items()
        if name not in (ALGORITHM_SETTING, *TASK_SETTINGS, *DEVICE_SETTINGS)
    }
    return {"": str(run.about.get("task") or called), **settings}


def _method(run: Run) -> dict[str, Any]:
    described = {
        "": run.method,
        ALGORITHM_SETTING: _settings(run, "agent").get(ALGORITHM_SETTING),
        "size": run.about.get("size"),
    }
    if run.space.fixed:
        return described | run.space.flatten(run.history[0].config)
    others = ("quantile", "explore", "synchronous", "mode")
    described["selection"] = selection_name(run.about)
    return described | _settings(run, "method") | {name: run.about.get(name) for name in others}


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
        names.append(shorten(", ".join([one[""], *parts]), MAX_LABEL_CHARS))
    return names


def score_table(
    tasks: RunsByTask, measure: str, value: Callable[[Run], float | None], sign: float
) -> ScoreTable | None:
    """Make the table of one measure; None if no run has it."""
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for task, groups in tasks.items():
        for method, runs in groups.items():
            values = tuple(v for v in map(value, runs) if v is not None)
            if values:
                found.setdefault(task, {})[method] = values
    if not found:
        return None
    methods = tuple(methods_of(tasks))
    baseline = next((name for name in BASELINES if name in methods), methods[0])
    rows = {task: _row(groups, groups.get(baseline, ()), sign) for task, groups in found.items()}
    pooled: dict[str, tuple[float, ...]] = {}
    bases = {task: float(np.mean(groups[baseline])) for task, groups in found.items() if baseline in groups}
    # A share of a mean that is zero or negative says nothing.
    if len(bases) == len(found) and min(bases.values()) > 0:
        for method in methods:
            values = tuple(100 * v / bases[task] for task, groups in found.items() for v in groups.get(method, ()))
            if all(method in groups for groups in found.values()):
                pooled[method] = values
    normalised = _row(pooled, pooled.get(baseline, ()), sign) if pooled else {}
    return ScoreTable(measure, baseline, methods, rows, normalised)


def _row(groups: Mapping[str, Sequence[float]], base: Sequence[float], sign: float) -> dict[str, Cell]:
    leader = max(groups.values(), key=lambda values: sign * float(np.mean(values)))
    limit = sign * float(np.mean(leader)) - np.nan_to_num(deviation(leader))
    return {
        method: Cell(
            tuple(values),
            # One run says nothing of the spread that bold stands for.
            best=len(values) > 1 and bool(sign * float(np.mean(values)) >= limit - 1e-12 * abs(limit)),
            p=math.nan if values is base else welch(values, base),
            better=bool(len(base)) and sign * float(np.mean(values)) > sign * float(np.mean(base)),
        )
        for method, values in groups.items()
    }


def score_tables(tasks: RunsByTask) -> list[ScoreTable]:
    """Make the tables of the final score, and of metrics named `test...`, of the member with the best final score."""
    runs = [run for groups in tasks.values() for members in groups.values() for run in members]
    sign = runs[0].sign
    reported = [set(_numbers(run)) for run in runs if run.final is not None]
    tests = sorted(name for name in set.intersection(*reported) if name.startswith("test")) if reported else []
    found = [score_table(tasks, "Final score", lambda run: None if run.final is None else run.final.score, sign)]
    found += [score_table(tasks, name, lambda run, name=name: _numbers(run).get(name), sign) for name in tests]  # type: ignore[misc]
    return [table for table in found if table is not None]


def _numbers(run: Run) -> dict[str, float]:
    """Return the numerical metrics of the member that is best at the end."""
    metrics = flat({} if run.final is None else run.final.metrics, "")
    return {k: float(v) for k, v in metrics.items() if type(v) in (int, float) and math.isfinite(v)}
