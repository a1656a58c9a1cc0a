"""The work of one job, the same for every engine: build or load the agent, train, check, save."""

import copy
import math
import os
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, TypeVar

from popbandits.agent import Agent, MakeAgent, Outcome
from popbandits.basics.records import RULES, Assignment, Key, plain, status_of, with_standard_error
from popbandits.basics.rules import is_real
from popbandits.basics.wording import error_text, storable
from popbandits.engines.making import IncompleteAgentError, build, find_evaluate
from popbandits.errors import AgentError, CheckpointError, PopbanditsError
from popbandits.storage.checkpoints import seal, verify
from popbandits.storage.disk import fault, required

T = TypeVar("T")

MAX_TRACEBACK_CHARACTERS = 20_000
"""Maximum number of characters of a traceback that are recorded, from its end."""


@dataclass(frozen=True)
class Job:
    """An assignment with everything that a worker needs to do it."""

    assignment: Assignment
    seed: int
    """Seed for an agent that has to be built."""
    source: Path | None
    """The parent's checkpoint; None for a fresh start."""
    draft: Path
    """Folder to save to."""
    evaluation: int | None = None
    """Seed of an evaluation, to do instead of training: nothing is saved then. None to train."""


FailureKind = Literal["raised", "score", "timeout", "died", "lost", "incomplete", "misapplied", "disk"]


@dataclass(frozen=True)
class Failure:
    """The reason why a job has no outcome."""

    kind: FailureKind
    """`lost`: the parent's checkpoint is missing or damaged. `incomplete`: the agent lacks a method. `incomplete`,
    `misapplied` and `disk` end the run."""
    text: str
    """The reason in one sentence."""
    traceback: str = ""

    def __post_init__(self) -> None:
        for name in ("text", "traceback"):
            object.__setattr__(self, name, storable(getattr(self, name)))


@dataclass(frozen=True)
class JobReport:
    """The result of a job: an outcome and a sealed draft, or a failure."""

    key: Key
    seconds: float
    end: Outcome | Failure
    evaluates: bool = False
    """True if the agent has the optional method `evaluate`."""

    @property
    def outcome(self) -> Outcome | None:
        """The outcome; None if the job failed."""
        return None if isinstance(self.end, Failure) else self.end

    @property
    def failure(self) -> Failure | None:
        """The failure; None if there is an outcome."""
        return self.end if isinstance(self.end, Failure) else None


def reports_of(job: Job | None, since: float, failure: Failure) -> list[JobReport]:
    """Return the report on a job that began at a time and failed; none if there was no job."""
    return [] if job is None else [JobReport(job.assignment.key, time.monotonic() - since, failure)]


def time_limit_failure(seconds: float | None) -> Failure:
    """Describe an interval that took longer than its time limit."""
    return Failure("timeout", f"did not end within {seconds:g} seconds")


class Checkpointable(Protocol):
    """Anything with checkpoints: an agent, or one member of a batch."""

    def save(self, directory: Path, /) -> None:
        """Write the whole state to an empty folder."""

    def load(self, directory: Path, /) -> None:
        """Restore the state that was saved there."""


class AgentPool:
    """The agents of a worker's members, which stay in memory between intervals."""

    def __init__(self, make_agent: MakeAgent, abandoned: threading.Event | None = None):
        self._make_agent = make_agent
        self._agents: dict[int, Agent] = {}
        self._abandoned = abandoned or threading.Event()  # Once set, no reports are awaited.

    def do(self, job: Job) -> JobReport:
        """Do a job. Errors of the agent are in the report."""
        start = time.perf_counter()
        end: Outcome | Failure
        try:
            end = self._train(job) if job.evaluation is None else self._evaluate(job)
        except BaseException as error:
            end = failure_of(error, job.draft)
            self._dismiss(job.assignment.member)  # Its state is unknown.
        if self._abandoned.is_set():
            shutil.rmtree(job.draft, ignore_errors=True)
        evaluates = find_evaluate(self._agents.get(job.assignment.member)) is not None
        return JobReport(job.assignment.key, time.perf_counter() - start, end, evaluates)

    def close(self) -> None:
        """Close all agents."""
        for member in list(self._agents):
            self._dismiss(member)

    def _train(self, job: Job) -> Outcome:
        agent = self._agent(job)
        if job.source is not None:
            load_verified(agent, job.source)
        call(announce, agent, job.assignment.key)
        result = call(agent.train, copy.deepcopy(job.assignment.config))
        return accept(agent, job, result, self._abandoned)

    def _evaluate(self, job: Job) -> Outcome:
        agent = self._agent(job)
        if (evaluate := find_evaluate(agent)) is None:
            raise IncompleteAgentError("the agent has no evaluate(seed)")
        assert job.source is not None
        load_verified(agent, job.source)
        return as_outcome(call(partial(evaluate, seed=job.evaluation)), "evaluate")

    def _agent(self, job: Job) -> Agent:
        """Return the member's agent; build one for a fresh start, or if there is none."""
        member = job.assignment.member
        if job.source is None:
            self._dismiss(member)
        if member not in self._agents:
            self._agents[member] = call(build, self._make_agent, job.seed)
        return self._agents[member]

    def _dismiss(self, member: int) -> None:
        dismiss(self._agents.pop(member, None))


def call(method: Callable[..., T], *args: Any) -> T:
    """Call an agent's code. A process that it forks ends here, so that it does not become a second worker or driver."""
    pid = os.getpid()
    try:
        return method(*args)
    finally:
        if os.getpid() != pid:
            os._exit(0)


def is_ctrl_c(error: BaseException) -> bool:
    """Tell whether an error is a real Ctrl-C: only Python's own handler raises one here, and a run replaces that."""
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def dismiss(agent: object) -> None:
    """Call the agent's `close`, if it has one."""
    if callable(close := getattr(agent, "close", None)):
        try:
            call(close)
        except BaseException as error:  # The agent is dropped anyway.
            if is_ctrl_c(error):
                raise


def load_verified(agent: Checkpointable, source: Path) -> None:
    """Verify a checkpoint and load it."""
    verify(source)
    call(agent.load, source)


def accept(agent: Checkpointable, job: Job, result: Any, abandoned: threading.Event | None = None) -> Outcome:
    """Check the result of `train`, and save the agent to a sealed draft, unless the job was abandoned."""
    outcome = as_outcome(result)
    if status_of(outcome.score) != "completed":
        raise NonFiniteScoreError(f"the score must be finite, got {outcome.score}")
    call(require_applied, agent, job.assignment.config)
    if abandoned is not None and abandoned.is_set():
        raise TimeoutError("the interval ended after its time limit")
    with required("write to", job.draft):
        job.draft.mkdir()
    call(agent.save, job.draft)
    seal(job.draft)
    return outcome


def announce(agent: Agent, key: Key) -> None:
    """Call the agent's `assigned` with the next interval, if it has one."""
    if callable(assigned := getattr(agent, "assigned", None)):
        assigned(*key)


def as_outcome(result: Any, method: str = "train") -> Outcome:
    """Convert the result of a method to an Outcome with Python numbers; raise AgentError if it breaks the contract."""
    given = result if isinstance(result, Outcome) else Outcome(result)
    try:
        if isinstance(given.score, str | bytes | bool):  # float() would accept some of them.
            raise TypeError
        score = float(given.score)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a tensor of several numbers.
        raise AgentError(
            f"{method} must return a number or an Outcome, got {result!r:.200}; "
            "return the score at the end of the interval"
        ) from None
    RULES["steps"].check("steps", given.steps, AgentError)
    metrics = with_standard_error(plain(given.metrics, "metrics"), given.standard_error)
    return Outcome(score, None if given.steps is None else float(given.steps), metrics, given.standard_error)


def require_applied(agent: Checkpointable, config: Mapping[str, Any]) -> None:
    """Raise unless the hyperparameters that an agent reports it trained with are those it was given."""
    applied = getattr(agent, "applied", None)
    if callable(applied) and (wrong := differences(config, applied())):
        raise HyperparameterMismatchError(
            "an agent must train with the hyperparameters it is given, but applied() says otherwise: "
            + "; ".join(wrong)
            + "; let train set them after a load, also those that the optimizer restored"
        )


def compared(asked: Mapping[str, Any], applied: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted name of each hyperparameter that is in both dicts, with its two values.

    >>> list(compared({"lr": 0.1, "sgd": {"momentum": 0.9, "nesterov": True}}, {"sgd": {"momentum": 0.5}}))
    [('sgd.momentum', 0.9, 0.5)]
    """
    for name in applied.keys() & asked.keys():
        wanted, value = asked[name], applied[name]
        if isinstance(wanted, Mapping) and isinstance(value, Mapping):
            yield from compared(wanted, value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", wanted, value


def differences(asked: Mapping[str, Any], applied: Mapping[str, Any]) -> list[str]:
    """List the hyperparameters that differ, a phrase each; those that are in only one of the dicts are not compared.

    >>> differences({"lr": 0.1, "optimizer": "adam"}, {"lr": 0.2, "optimizer": "adam", "momentum": 0.9})
    ['lr is 0.2, expected 0.1']
    """
    pairs = compared(asked, applied)
    return sorted(
        f"{name} is {value!r}, expected {wanted!r}" for name, wanted, value in pairs if not _equal(wanted, value)
    )


def _equal(asked: Any, applied: Any) -> bool:
    """Compare two values, numbers to the precision of a 32-bit float, which agents may use."""
    if is_real(asked) and is_real(applied):
        return math.isclose(asked, applied, rel_tol=1e-6, abs_tol=1e-12)
    return bool(asked == applied)


class HyperparameterMismatchError(AgentError):
    """An agent did not train with the hyperparameters it was given."""


class NonFiniteScoreError(AgentError):
    """NaN or an infinity: the interval failed."""


_EXPLAINED: dict[FailureKind, type[PopbanditsError]] = {
    "score": NonFiniteScoreError,
    "incomplete": IncompleteAgentError,
    "misapplied": HyperparameterMismatchError,
    "lost": CheckpointError,
}
"""Errors whose message says all, by the kind of failure."""


def agents_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error from the first frame of the agent on; None if the agent did not raise it.

    The frames before are those of whoever called the agent: an engine, or an adapter that a user's class extends.
    """
    trace = error.__traceback__
    while trace is not None and Path(trace.tb_frame.f_code.co_filename).parent in _CALLERS:
        trace = trace.tb_next
    return trace


_CALLERS = {Path(__file__).parents[1] / name for name in ("engines", "adapters", "testing")}


def describe_error(error: BaseException) -> str:
    """Return the class and the message of an error.

    >>> describe_error(ValueError("the loss exploded")), describe_error(KeyboardInterrupt())
    ('ValueError: the loss exploded', 'KeyboardInterrupt')
    """
    said = error_text(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def failure_of(error: BaseException, draft: Path) -> Failure:
    """Convert an error to a Failure; raise a real Ctrl-C again. The agent was to write to the folder `draft`."""
    if is_ctrl_c(error):
        raise error
    for kind, errors in _EXPLAINED.items():
        if isinstance(error, errors):
            return Failure(kind, str(error))
    frames = agents_frames(error)
    if frames is None and not isinstance(error, PopbanditsError):  # Our messages say all; other errors may be bugs.
        frames = error.__traceback__
    try:
        lines = traceback.format_exception(type(error), error, frames) if frames else []
    except BaseException:  # A user's exception may raise when it is formatted.
        lines = []
    trace = "".join(lines)[-MAX_TRACEBACK_CHARACTERS:]
    if (refused := fault(error, draft)) is not None:
        return Failure("disk", refused, trace)
    return Failure("raised", describe_error(error)[:1000], trace)
