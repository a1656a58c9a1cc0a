"""The engine for a population that is one program: every member trains in the same call.

Members stay in memory between intervals, and a parent that is in memory is copied there. A checkpoint of each member is
sealed all the same, so that a run is recorded, resumed and reported as on any other engine. It is loaded if its state
is not in memory: after a resume, a failure, or if an asynchronous member continues from an older state of a parent.

The number of members never changes. A member without a job in a call, or whose checkpoint cannot be loaded, trains as a
copy of a member with a job: same state, same hyperparameters, so it does nothing that the other does not. Its result is
discarded.
"""

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

from popbandits.agent import BatchedAgents, MakeAgents, Outcome
from popbandits.basics.records import Key
from popbandits.engines.engine import Engine
from popbandits.engines.making import IncompleteAgentError
from popbandits.engines.work import Failure, Job, JobReport, accept, call, dismiss, failure_of, load_verified
from popbandits.errors import AgentError

BATCH_METHODS = ("train", "copy", "reset", "save", "load")


@dataclass(frozen=True)
class Slot:
    """One member of a batch, with the checkpoint methods of an agent."""

    agents: BatchedAgents
    member: int
    used: Mapping[str, Any] = field(default_factory=dict)
    """Hyperparameters that it reports it trained with."""

    def save(self, directory: Path) -> None:
        """Save this member."""
        self.agents.save(self.member, directory)

    def load(self, directory: Path) -> None:
        """Load this member."""
        self.agents.load(self.member, directory)

    def applied(self) -> Mapping[str, Any]:
        """Return the hyperparameters that it reports it trained with."""
        return self.used


class BatchedEngine(Engine):
    """An engine that collects the jobs of a round, and does them in one call; members stay in memory."""

    def __init__(self, make_agents: MakeAgents, size: int):
        super().__init__()
        self._make_agents, self._size = make_agents, size
        self._agents: BatchedAgents | None = None
        self._holds: list[Key | None] = [None] * size  # by slot: (member, round) of its state; None if unusable

    def wait(self) -> list[JobReport]:
        """Do all queued jobs; the reports are in the same order."""
        jobs = list(self._queue)
        self._queue.clear()
        return self._do(jobs) if jobs else []

    def close(self) -> None:
        """Close the agents."""
        self._queue.clear()
        self._drop()

    def _do(self, jobs: Sequence[Job]) -> list[JobReport]:
        """Do the jobs of different members in one call. Failures are in the reports."""
        start = time.perf_counter()
        ends: dict[Key, Outcome | Failure] = {}
        try:
            trained = self._train(*self._prepare(jobs, ends))
        except BaseException as error:
            for job in jobs:
                ends.setdefault(job.assignment.key, failure_of(error, job.draft))
            self._drop()  # Its state is unknown.
        else:
            self._save(trained, ends)
        seconds = (time.perf_counter() - start) / len(jobs)  # An equal share each, so that they add up.
        return [JobReport(job.assignment.key, seconds, ends[job.assignment.key]) for job in jobs]

    def _drop(self) -> None:
        """Close the agents and drop them."""
        dismiss(self._agents)
        self._agents, self._holds = None, [None] * self._size

    def _prepare(self, jobs: Sequence[Job], ends: dict[Key, Outcome | Failure]) -> tuple[BatchedAgents, list[Job]]:
        """Set members to the start of their intervals; return the jobs for which it worked, others are in `ends`."""
        new = self._agents is None
        if self._agents is None:
            # Those that do not start afresh are overwritten, so that their seeds do not matter.
            seeds = {job.assignment.member: job.seed for job in jobs}
            self._agents = build_batch(self._make_agents, [seeds.get(member, member) for member in range(self._size)])
        agents = self._agents
        where = {key: slot for slot, key in enumerate(self._holds)}
        sources, apart = list(range(self._size)), []
        for job in jobs:
            if job.assignment.parent is not None and job.assignment.parent in where:
                sources[job.assignment.member] = where[job.assignment.parent]
            elif job.source is not None or not new:
                apart.append(job)
        self._holds = [None] * self._size
        copy_members(agents, sources)
        for job in apart:  # After the copies: these may overwrite a source.
            try:
                if job.source is None:
                    call(agents.reset, job.assignment.member, job.seed)
                else:
                    load_verified(Slot(agents, job.assignment.member), job.source)
            except BaseException as error:
                ends[job.assignment.key] = failure_of(error, job.draft)
        return agents, [job for job in jobs if job.assignment.key not in ends]

    def _train(self, agents: BatchedAgents, jobs: Sequence[Job]) -> list[tuple[Job, Slot, Any]]:
        """Train in one call; return each job with its member and its result."""
        if not jobs:
            return []
        due = {job.assignment.member: job.assignment for job in jobs}
        first = jobs[0].assignment
        copy_members(agents, [member if member in due else first.member for member in range(self._size)])
        doing = [due.get(member, first) for member in range(self._size)]
        if callable(assigned := getattr(agents, "assigned", None)):
            call(assigned, [assignment.key for assignment in doing])
        configs = [copy.deepcopy(assignment.config) for assignment in doing]
        scores = scores_of(call(agents.train, configs), self._size)
        used = applied_by(agents, self._size)
        return [(job, Slot(agents, m, used[m]), scores[m]) for job, m in zip(jobs, due, strict=True)]

    def _save(self, trained: Sequence[tuple[Job, Slot, Any]], ends: dict[Key, Outcome | Failure]) -> None:
        """Check and save each member by itself; put the result in `ends`."""
        full: Failure | None = None
        for job, slot, score in trained:
            key = job.assignment.key
            if full is not None:  # The disk has no space for the other checkpoints either.
                ends[key] = full
                continue
            try:
                ends[key] = accept(slot, job, score)
                self._holds[slot.member] = key
            except BaseException as error:
                ends[key] = failure = failure_of(error, job.draft)
                full = failure if failure.kind == "disk" else None


def build_batch(make_agents: MakeAgents, seeds: list[int]) -> BatchedAgents:
    """Build batched agents, and check that they have all methods."""
    try:
        signature(make_agents, follow_wrapped=False).bind(seeds)
    except TypeError:
        raise IncompleteAgentError(
            f"engine='batched' calls make_agents with the list of all seeds, got {make_agents!r}, which does not take "
            "one; choose another engine for agents that are built one by one"
        ) from None
    except ValueError:  # Some builtins have no signature.
        pass
    agents = call(make_agents, seeds)
    if missing := [name for name in BATCH_METHODS if not callable(getattr(agents, name, None))]:
        raise IncompleteAgentError(
            f"batched agents have {', '.join(BATCH_METHODS)}, got {agents!r} without {', '.join(missing)}; add them, "
            "or choose another engine for agents that are built one by one"
        )
    return agents


def copy_members(agents: BatchedAgents, sources: list[int]) -> None:
    """Copy the state of source members, unless each is its own source."""
    if sources != list(range(len(sources))):
        call(agents.copy, sources)


def scores_of(results: Any, size: int) -> Sequence[Any]:
    """List the result of `train` for each member; raise AgentError if there is not one for each."""
    try:
        found = None if isinstance(results, str | bytes | Mapping | set) else list(results)
    except TypeError:
        found = None
    if found is None or len(found) != size:
        raise AgentError(f"train must return a score or an Outcome for each of {size} members, got {results!r}")
    return found


def applied_by(agents: BatchedAgents, size: int) -> Sequence[Mapping[str, Any]]:
    """List the hyperparameters that each member reports it trained with; empty if the batch has no `applied`."""
    if not callable(applied := getattr(agents, "applied", None)):
        return [{}] * size
    used = list(call(applied))
    if len(used) != size or not all(isinstance(config, Mapping) for config in used):
        raise AgentError(f"applied must return a configuration for each of {size} members, got {used!r:.200}")
    return used
