"""The run loop: ask the population, let the engine train, write the record. Everything is on disk before it is used.

An interval is accepted in this order, so that a kill at any time loses only what was in training: its checkpoint gets
its final name; the observation is committed; the next decisions are made and committed; only then are checkpoints
removed that are no longer needed. A killed run leaves at most a checkpoint without an observation, which is removed
when the run is opened again.
"""

import math
import os
import platform
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from popbandits.agent import Outcome
from popbandits.basics.wording import counted
from popbandits.engines.engine import Engine
from popbandits.engines.work import Failure, Job, JobReport
from popbandits.errors import AgentError, DiskError, HistoryError, PopbanditsWarning, RunError
from popbandits.history import Assignment, Event, Key
from popbandits.population import Population
from popbandits.run.evaluation import evaluate
from popbandits.run.experiment import Experiment
from popbandits.run.recorder import Recorder
from popbandits.run.signing import Signer
from popbandits.storage.checkpoints import CHECKPOINTS, Checkpoints, fingerprint
from popbandits.storage.queries import last_turn
from popbandits.storage.store import Store
from popbandits.views.view import View

AGENT = 3
"""Purpose of a random stream, besides those of the population: the seeds of agents."""

BEST = -1
"""Holds the best checkpoint so far, besides the members, which hold their last ones."""

EMPTY = (
    "save wrote no file, so a checkpoint restores nothing, neither for a member that copies another nor for you; "
    "write all that training continues from, unless nothing lasts between intervals"
)
"""Warning about an agent's first checkpoint."""

PATIENCE = 8
"""Minimum number of failures in a row that end a run; at least two per member."""


class Loop:
    """The loop that connects a population, its record, its checkpoints and an engine.

    Args:
        experiment: The settings of the run.
        population: Its population.
        store: Its file.
        view: View that is told what happens.
        edited: Differences of today's code from the record, a sentence each.
        again: Whether a run that is finished is evaluated again.
    """

    def __init__(
        self, experiment: Experiment, population: Population, store: Store, view: View, edited: list[str], again: bool
    ):
        self.experiment, self.population, self.store, self.view = experiment, population, store, view
        self.checkpoints = Checkpoints(store.path.parent / CHECKPOINTS, experiment.keep)
        self.recorder, self._signer = Recorder(population, store), Signer.of(store)
        self.edited = edited
        ended = population.done and last_turn(store) == "finished"
        able = experiment.engine != "batched" and experiment.evaluations > 0
        self._unevaluated = able and (again or not ended)
        self._evaluates = True  # as far as is known: whether agents have an evaluate
        self.stopping = False
        """True if it was asked to stop: intervals in training finish, and no new ones start."""
        self._reason = ""  # why a view asked it to stop
        self._at_once = False  # stop without waiting for what is in training
        self._asked_to_end = False  # end the process too, not only the run
        self._waiting: list[Assignment] = []  # decided, but not submitted to the engine yet
        self._jobs: dict[Key, Job] = {}
        self._held: dict[int, Key] = {}  # the last checkpoint of each member, and the BEST
        self._failures = 0  # since the run was opened: before a resume the cause may have been fixed
        self._in_a_row = 0

    def run(self) -> None:
        """Train until every member has finished its last round, or the run is stopped."""
        with self._signals():
            try:
                self._open()
                if not self.population.done or self._unevaluated:
                    self._train()
            finally:
                done = self.population.done and not self._unevaluated
                with suppress(DiskError, HistoryError):  # A full disk has been reported already.
                    stopped = "stopped", f"{self._reason}it can be resumed"
                    self._say(*(("finished", "every member is done") if done else stopped))
                self.view.closed()
        if self._asked_to_end:
            raise SystemExit(128 + signal.SIGTERM)

    def _train(self) -> None:
        # Not earlier: workers inherit the output that the view captures.
        engine = self.experiment.make_engine()
        try:
            while not self.population.done:
                self._ask_views()
                self._submit(engine)
                reports = engine.wait()
                self._is_stopping()
                if not reports:  # Stopped, and nothing is in training.
                    break
                for report in reports:
                    self._accept(report)
            if self.population.done and self._unevaluated:
                known = self.population, self.checkpoints, self.experiment.evaluations, self._record, self._is_stopping
                self._unevaluated = self._evaluates and not evaluate(engine, *known)
        finally:
            engine.close()
            for job in self._jobs.values():
                self.checkpoints.discard(job.draft)

    def _is_stopping(self) -> bool:
        """Tell whether the run is to stop; raise KeyboardInterrupt if it is to stop at once."""
        if self._at_once:  # Even if an agent caught the interrupt.
            raise KeyboardInterrupt
        return self.stopping

    def _open(self) -> None:
        """Hold the checkpoints that are needed, and remove what a killed run left behind."""
        history = self.population.history
        for member in range(self.population.size):
            if (last := history.last_completed(member)) is not None:
                self._hold(member, last.key)
        if history.best is not None:
            self._hold(BEST, history.best.key)
        self.view.opened(self.population, self.store.path.parent)
        self._say("resumed" if len(history) else "started", f"process {os.getpid()} on {platform.node()}")
        for difference in self.edited:
            self._say("edited", difference)
        self._decide()
        self.checkpoints.tidy(lambda key: (o := history.find(key)) is not None and not o.failed)

    def _decide(self) -> None:
        """Ask the population, and hold the checkpoints of the parents."""
        assignments = self.recorder.ask()
        if not assignments:
            return
        for assignment in assignments:
            if assignment.parent is not None:
                self.checkpoints.hold(assignment.parent)
        self._waiting += assignments
        self.view.asked(self.recorder.decided)

    def _ask_views(self) -> None:
        """Stop as after a first Ctrl-C if a view gives a reason."""
        if not self.stopping and (reason := self.view.stop()):
            self.stopping, self._reason = True, f"{reason}; "
            self.view.happened(Event("stopping", "intervals in training end first", data={"reason": reason}))

    def _submit(self, engine: Engine) -> None:
        """Submit the assignments to the engine, unless the run is to stop."""
        if self.stopping:
            return
        self._decide()
        for assignment in self._waiting:
            parent = assignment.parent
            source = None if parent is None else self.checkpoints.path(parent)
            job = Job(assignment, agent_seed(self.population.seed, assignment.key), source, self.checkpoints.draft())
            self._jobs[assignment.key] = job
            engine.submit(job)
        self._waiting.clear()

    def _accept(self, report: JobReport) -> None:
        """Record the result of a job."""
        job, failure = self._jobs.pop(report.key), report.failure
        outcome = report.outcome or Outcome(math.nan)
        told: dict[str, Any] = {"steps": outcome.steps, "metrics": outcome.metrics, "seconds": report.seconds}
        if failure is None:
            self._evaluates = report.evaluates
            self.checkpoints.publish(job.draft, report.key)
            if BEST not in self._held and self.checkpoints.is_empty(report.key):  # Once in a run.
                self._say("empty", EMPTY)
                warnings.warn(EMPTY, PopbanditsWarning, stacklevel=2)
            told["signed"] = self._signer.checkpoint(report.key, fingerprint(self.checkpoints.path(report.key)))
        elif failure.kind in ("incomplete", "misapplied", "disk"):
            self._end(job, failure)
        else:
            self.checkpoints.discard(job.draft)
            told["event"] = _event(failure, job.assignment)
        observation = self.recorder.tell(job.assignment, outcome.score, **told)
        if failure is not None:
            self.view.happened(told["event"])
        self.view.told(observation)
        if not self.population.synchronous:
            self._decide()  # Before checkpoints are removed: a decision may need them.
        if failure is None:
            self._hold(observation.member, observation.key)
            if self.population.history.best is observation:
                self._hold(BEST, observation.key)
        if job.assignment.parent is not None:
            self.checkpoints.release(job.assignment.parent)
        self._count(failure)

    def _hold(self, whose: int, key: Key) -> None:
        """Hold the last checkpoint of a member, or the BEST so far, and release the one before it."""
        before, self._held[whose] = self._held.get(whose), key
        self.checkpoints.hold(key)
        if before is not None:
            self.checkpoints.release(before)

    # Faults

    def _count(self, failure: Failure | None) -> None:
        """Count failures, and end a run with too many."""
        if failure is None:
            self._in_a_row = 0
            return
        if failure.kind == "lost":  # Not an agent's fault, and it ends: if all are lost, members start afresh.
            return
        self._failures += 1
        self._in_a_row += 1
        size = self.population.size
        never = BEST not in self._held and self._in_a_row >= size
        if never or self._in_a_row >= max(PATIENCE, 2 * size):
            what = "no interval has completed yet" if never else f"the last {self._in_a_row} intervals failed"
        elif (most := self.experiment.max_failures) is not None and self._failures > most:
            what = f"{counted(self._failures, 'interval')} failed and max_failures is {most}"
        else:
            return
        go_on = "start the run again" if never else "resume it"  # Resumed, it would not train with its start again.
        raise RunError(
            f"a run ends when {what}; the last failure: {failure.text.rstrip('.')}. Everything so far is in "
            f"{self.store.path.parent}: fix the agent, then {go_on}\n{failure.traceback}".rstrip()
        )

    def _end(self, job: Job, failure: Failure) -> NoReturn:
        """Stop for a failure that does not count for the interval; the assignment is done again after a resume."""
        self.checkpoints.discard(job.draft)  # First: the record may need the space.
        with suppress(DiskError):
            self._record(_event(failure, job.assignment))
        raise DiskError(failure.text) if failure.kind == "disk" else AgentError(failure.text)

    def _say(self, kind: str, text: str) -> None:
        self._record(Event(kind, text, time=time.time()))

    def _record(self, event: Event) -> None:
        self.recorder.say(event)
        self.view.happened(event)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop on Ctrl-C or SIGTERM: the first lets what is in training end, the second stops at once.

        SIGTERM then ends the process too."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        own = os.getpid()

        def stop(number: int, frame: FrameType | None) -> None:
            is_forked = os.getpid() != own  # by an agent
            if is_forked and number == signal.SIGTERM:  # It is to end.
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            if self.stopping:
                self._at_once = True
                raise KeyboardInterrupt
            self.stopping, self._asked_to_end = True, number == signal.SIGTERM
            if is_forked:  # A terminal sends Ctrl-C to every process; here, locks of a view may be held for ever.
                return
            self.view.happened(Event("stopping", "intervals in training end first; again to stop at once"))

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def agent_seed(seed: int, key: Key) -> int:
    """Return the seed of an agent that is built for an interval, different for every run, member and round."""
    return int(np.random.SeedSequence(seed, spawn_key=(AGENT, *key)).generate_state(1)[0])


def _event(failure: Failure, assignment: Assignment) -> Event:
    data = {"traceback": failure.traceback} if failure.traceback else {}
    return Event(failure.kind, failure.text, *assignment.key, data, time.time())
