"""Many runs, each in its own folder, one or several at a time, within a time limit; finished runs are skipped."""

import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from popbandits.basics.wording import clock, counted
from popbandits.commands.registry import STOPPED
from popbandits.errors import PopbanditsError, RunError
from popbandits.history import Observation
from popbandits.population import Population
from popbandits.reports.tables import DEVICE_SETTINGS
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
    at_a_time: int = 1,
    whole: bool = False,
) -> bool:
    """Run or resume the experiments that are not finished; return whether all are finished now.

    If some fail, the others still run, and RunError is raised at the end. `view` makes the view of a run. With a
    `time_limit` in seconds, no round starts that might not end in time, except the first one. Of the agent's settings,
    those of where it trains may differ from those that a run was started with.
    With `whole`, no run is started either that might not be finished in time, judging by the rounds so far: for
    machines that lose unfinished runs.

    `at_a_time` counts members: runs start in the order given, as many as fit; one with more members trains alone.
    Runs that train at the same time are threads of this process, so that they can share a GPU. After Ctrl-C the
    intervals in training end, no other begins, and KeyboardInterrupt is raised.
    """
    for experiment in experiments:
        _check(experiment)
    limit, failed = Limit(time_limit), dict[Path, RunError]()
    assert not whole or all(experiment.rounds for experiment in experiments), "a whole run has a number of rounds"

    def train(number: int, experiment: Experiment) -> bool:
        """Finish a run, if the time allows; return whether it is finished or has failed."""
        directory = _folder(experiment)
        begun = (directory / RUN_FILE).exists()
        if begun and Result(directory).done:
            return True
        if limit.over or (whole and not begun and limit.too_short(experiment.rounds or 0)):
            return False
        timer = Timer(f"{directory} ({number} of {len(experiments)})", limit)
        try:
            if begun:
                given = {"agent": experiment.agent, "method": experiment.method, "engine": experiment.engine}
                result = resume(directory, progress=view(experiment), callbacks=[timer], **given)
            else:
                result = run(experiment.changed(callbacks=[timer]), view(experiment))
        except RunError as error:
            failed[directory] = error
            print(f"{timer.label} failed: {error}", file=sys.stderr, flush=True)
            return True
        limit.stopped = limit.stopped or timer.interrupted(result)
        return result.done

    numbered = list(enumerate(experiments, 1))
    if at_a_time == 1:
        finished = all(train(*each) for each in numbered)
    else:
        calls = [(partial(train, *each), each[1].at_a_time) for each in numbered]
        finished = _side_by_side(calls, at_a_time, limit)
    if limit.stopped and not finished:
        raise KeyboardInterrupt
    if finished and failed:
        first, why = next(iter(failed.items()))
        raise RunError(
            f"{len(failed)} of {counted(len(experiments), 'run')} failed, the others are finished; {first}: {why}"
        ) from why
    return finished


def _side_by_side(runs: Sequence[tuple[Callable[[], bool], int]], at_a_time: int, limit: "Limit") -> bool:
    """Call the runs in threads, each as soon as its members fit; return whether all are finished."""
    finished: list[bool] = []
    waiting, training = deque(runs), dict[Future[None], int]()

    def note(call: Callable[[], bool]) -> None:
        finished.append(call())

    with ThreadPoolExecutor(at_a_time) as threads:
        while waiting or training:
            try:
                while waiting and (not training or sum(training.values()) + waiting[0][1] <= at_a_time):
                    call, members = waiting.popleft()
                    training[threads.submit(note, call)] = members
                for ended in wait(training, return_when=FIRST_COMPLETED).done:
                    del training[ended]
                    ended.result()
            except KeyboardInterrupt:  # It only reaches the main thread.
                if limit.stopped:
                    os._exit(STOPPED)  # Nothing can interrupt a thread, and a run survives a kill.
                limit.stopped = True
                print("Intervals in training end first; again to stop at once", file=sys.stderr, flush=True)
    return len(finished) == len(runs) and all(finished)


def _folder(experiment: Experiment) -> Path:
    assert experiment.directory is not None, "every run of a grid has a folder"
    return Path(experiment.directory)


def _check(experiment: Experiment) -> None:
    """Raise RunError if the folder holds a run with other settings than the experiment's."""
    directory = _folder(experiment)
    if not (directory / RUN_FILE).exists():
        return
    with reading(directory) as store:
        before = _identity(store.about, store.space, Signer.of(store))
    now = _identity(json.loads(json.dumps(experiment.record())), experiment.plan.space)
    free = {f"agent.{name}" for name in DEVICE_SETTINGS}
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
    for name, words in space.rules():
        found.setdefault(f"space.{name}", words)
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


class Limit:
    """Time that the runs of a grid have together."""

    def __init__(self, seconds: float | None = None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self.longest = 0.0
        """Seconds of the longest round so far."""
        self.stopped = False
        """True if no round is to start any more."""
        self._rounds, self._seconds = 0, 0.0

    def add(self, seconds: float) -> None:
        """Add the time of a round."""
        self.longest = max(self.longest, seconds)
        self._rounds, self._seconds = self._rounds + 1, self._seconds + seconds

    @property
    def over(self) -> bool:
        """True if another round might not end in time; False before the first round."""
        return self.stopped or self.too_short(1)

    def too_short(self, rounds: int) -> bool:
        """Tell whether this many rounds might not end in time; False before the first round."""
        if self._end is None or not self._rounds:
            return False
        needed = (rounds - 1) * self._seconds / self._rounds + SLACK * self.longest
        return time.monotonic() + needed > self._end


class Timer(View):
    """Print the speed of a run, and stop it before the time is over."""

    def __init__(self, label: str, limit: Limit) -> None:
        self.label = label
        """Name of the run."""
        self._limit = limit

    def opened(self, population: Population, directory: Path) -> None:
        """Start timing a new or resumed run."""
        self._population, self._before = population, len(population.history)
        self._opened = self._since = time.monotonic()
        self._round: list[Observation] = []
        self._stopping = False

    def told(self, observation: Observation) -> None:
        """Record an interval; after a round, print the speed and decide whether another one begins."""
        self._round.append(observation)
        if len(self._population.history) % self._population.size:
            return
        now = time.monotonic()
        with suppress(OSError, ValueError):  # A full or closed log must not end the run.
            print(self._pace(now), file=sys.stderr, flush=True)
        self._limit.add(now - self._since)
        self._since = now
        self._round.clear()
        self._stopping = self._limit.over and not self._population.done

    def _pace(self, now: float) -> str:
        done, whole = len(self._population.history), self._population.size * (self._population.rounds or 0)
        trained = [(o.steps, o.seconds) for o in self._round if o.steps is not None and o.seconds]
        speeds = [steps / seconds for steps, seconds in trained] or [0.0]
        in_all = sum(steps for steps, _ in trained) / max(now - self._since, 1e-9)
        left = (whole - done) * (now - self._opened) / (done - self._before)
        members = f"{min(speeds):,.0f} to {max(speeds):,.0f} a member"
        return f"{self.label}: {in_all:,.0f} steps/s in all, {members}, about {clock(left)} left"

    def interrupted(self, result: Result) -> bool:
        """Tell whether the run ended before the time was over, as after Ctrl-C alone."""
        return not result.done and not self._stopping

    def stop(self) -> str | None:
        """Return the reason if no other round would end in time."""
        return ("Ctrl-C" if self._limit.stopped else "the time is over") if self._stopping else None
