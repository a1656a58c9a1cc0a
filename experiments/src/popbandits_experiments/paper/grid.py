"""Many runs one after another, each in its own folder, within a time limit; finished runs are skipped."""

import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from popbandits.basics.wording import clock, counted
from popbandits.errors import PopbanditsError, RunError
from popbandits.history import Decision, Event, Observation
from popbandits.population import Population
from popbandits.run import Experiment, Result, resume, run
from popbandits.run.recipes import Role, current, prepare, recipe
from popbandits.run.signing import Signer
from popbandits.space import Space
from popbandits.storage.schema import RUN_FILE
from popbandits.storage.store import reading
from popbandits.views.view import View

SLACK = 1.2
"""A round starts only if this many times the longest round so far fits in the time left."""


def run_grid(
    experiments: Sequence[Experiment],
    view: Callable[[Experiment], View],
    *,
    time_limit: float | None = None,
    may_differ: frozenset[str] = frozenset(),
) -> bool:
    """Run or resume the experiments that are not finished; return whether all are finished now.

    If some fail, the others still run, and RunError is raised at the end. `view` makes the view of a run. With a
    `time_limit` in seconds, no round starts that might not end in time, except the first one. `may_differ` names
    settings of the agent that may differ from those that a run was started with.
    """
    for experiment in experiments:
        _check(experiment, may_differ)
    timed, failed = TimedView(time_limit), dict[Path, RunError]()
    for number, experiment in enumerate(experiments, 1):
        directory = _folder(experiment)
        begun = (directory / RUN_FILE).exists()
        if begun and Result(directory).done:
            continue
        if timed.over:
            return False
        timed.shown, timed.label = view(experiment), f"{directory} ({number} of {len(experiments)})"
        try:
            if begun:
                given = {"agent": experiment.agent, "method": experiment.method, "engine": experiment.engine}
                result = resume(directory, progress=timed, **given)
            else:
                result = run(experiment, timed)
        except RunError as error:
            failed[directory] = error
            print(f"{timed.label} failed: {error}", file=sys.stderr, flush=True)
            continue
        if not result.done:
            return False
    if failed:
        first, why = next(iter(failed.items()))
        raise RunError(
            f"{len(failed)} of {counted(len(experiments), 'run')} failed, the others are finished; {first}: {why}"
        ) from why
    return True


def _folder(experiment: Experiment) -> Path:
    assert experiment.directory is not None, "every run of a grid has a folder"
    return Path(experiment.directory)


def _check(experiment: Experiment, may_differ: frozenset[str]) -> None:
    """Raise RunError if the folder holds a run with other settings than the experiment's."""
    directory = _folder(experiment)
    if not (directory / RUN_FILE).exists():
        return
    with reading(directory) as store:
        before = _identity(store.about, store.space, Signer.of(store))
    now = _identity(json.loads(json.dumps(experiment.record())), experiment.plan.space)
    free = {f"agent.{name}" for name in may_differ}
    for name in now:
        if before.get(name) != now[name] and name not in free:
            raise RunError(
                f"a run must resume with the settings it was started with, got {name.removeprefix('agent.')} "
                f"{now[name]!r} for {directory}, which has {before.get(name)!r}; use that, or another folder with -o"
            )


def _identity(about: Mapping[str, Any], space: Space, signer: Signer | None = None) -> dict[str, Any]:
    """Return the settings that identify a run, as far as a grid can get them wrong."""
    found = {"population": about["size"], "seed": about["seed"], "rounds": about["rounds"]}
    found["start"] = [each["config"] for each in about.get("start") or []]
    found |= {f"space.{each.name}": str(each).partition(": ")[2] for each in (*space.numerical, *space.categorical)}
    roles: tuple[Role, ...] = ("agent", "method")
    for role in roles:
        made = _complete(about[role] or {}, role, signer)
        found[role] = made.get("name") or current(str(made.get("make")))
        found |= {f"{role}.{name}": value for name, value in made.get("settings", {}).items()}
    return found


def _complete(given: Mapping[str, Any], role: Role, signer: Signer | None) -> Mapping[str, Any]:
    """Return a recipe with the settings that it lacks because they are newer, at the values they have in a resume."""
    try:
        made = recipe(prepare(given, role, signer=signer))
    except (PopbanditsError, TypeError):  # What cannot be made is compared as it is, and a resume says why.
        return given
    return given if made is None else json.loads(json.dumps(made))


class TimedView(View):
    """View of one run after another: prints their speed and stops them, like Ctrl-C, before the time is over."""

    def __init__(self, time_limit: float | None = None) -> None:
        self.shown = View()
        """View that shows the current run."""
        self.label = ""
        self._end = None if time_limit is None else time.monotonic() + time_limit
        self._longest = 0.0
        self._stopping = False

    @property
    def over(self) -> bool:
        """True if another round might not end in time; False before the first round."""
        if self._end is None or not self._longest:
            return False
        return time.monotonic() + SLACK * self._longest > self._end

    def opened(self, population: Population, directory: Path) -> None:
        """Start timing a new or resumed run."""
        self.shown.opened(population, directory)
        self._population, self._before = population, len(population.history)
        self._opened = self._since = time.monotonic()
        self._round: list[Observation] = []
        self._stopping = False

    def asked(self, decisions: Sequence[Decision]) -> None:
        """Pass the decisions on to the view of the run."""
        self.shown.asked(decisions)

    def told(self, observation: Observation) -> None:
        """Record an interval; after a round, print the speed and stop the run if time is over."""
        self.shown.told(observation)
        self._round.append(observation)
        if len(self._population.history) % self._population.size:
            return
        now = time.monotonic()
        with suppress(OSError, ValueError):  # A full or closed log must not end the run.
            print(self._pace(now), file=sys.stderr, flush=True)
        self._longest = max(self._longest, now - self._since)
        self._since = now
        self._round.clear()
        if self.over and not self._stopping and not self._population.done:
            signal.raise_signal(signal.SIGINT)

    def _pace(self, now: float) -> str:
        done, size, rounds = len(self._population.history), self._population.size, self._population.rounds
        trained = [(o.steps, o.seconds) for o in self._round if o.steps is not None and o.seconds]
        speeds = [steps / seconds for steps, seconds in trained] or [0.0]
        in_all = sum(steps for steps, _ in trained) / max(now - self._since, 1e-9)
        parts = [f"{self.label}: {in_all:,.0f} steps/s in all, {min(speeds):,.0f} to {max(speeds):,.0f} a member"]
        if rounds is not None:
            left = (size * rounds - done) * (now - self._opened) / (done - self._before)
            parts.append(f"about {clock(left)} left")
        return ", ".join(parts)

    def happened(self, event: Event) -> None:
        """Note whether the run is stopping, and pass the event on."""
        self._stopping = self._stopping or event.kind == "stopping"
        self.shown.happened(event)

    def closed(self) -> None:
        """Close the view of the run."""
        self.shown.closed()
