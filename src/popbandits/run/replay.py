"""The winning schedule of a run, trained again from scratch."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from popbandits.agent import MakeAgent, MakeAgents
from popbandits.basics.scratch import scratch
from popbandits.engines.batched import BatchedEngine
from popbandits.engines.engine import Engine, InProcess
from popbandits.engines.work import Failure, Job
from popbandits.errors import HistoryError, RunError
from popbandits.history import Assignment, Observation
from popbandits.run.loop import agent_seed
from popbandits.run.recipes import on_record
from popbandits.run.result import Result
from popbandits.run.signing import Signer
from popbandits.storage.disk import absolute_path, required
from popbandits.storage.store import reading


@dataclass(frozen=True)
class Replay:
    """The result of training along a schedule again."""

    seed: int
    """Seed of the agent."""
    recorded: tuple[Observation, ...]
    """The winning lineage, as the run recorded it."""
    scores: tuple[float, ...]
    """Scores of the replay, after each interval."""

    @property
    def score(self) -> float:
        """Score of the replay at the end."""
        return self.scores[-1]


def replay(
    directory: str | Path,
    agent: MakeAgent | MakeAgents | None = None,
    seed: int | None = None,
    save: str | Path | None = None,
    after: Callable[[Observation, float], Any] = lambda observation, score: None,
    *,
    trust: bool = False,
) -> Replay:
    """Train one agent from scratch along the schedule of what a run hands over (`Result.choice`).

    It is saved and loaded between intervals as in the run. So an agent that depends only on its seed and its checkpoint
    gets the same scores, to the last bit; other seeds show how much was luck.

    Args:
        directory: Folder of the run.
        agent: Function that builds an agent from a seed (all members from a list of seeds, if the run was batched: then
            the whole population trains along the schedule, in the shapes of the run). None (default) is the run's own.
        seed: Seed of the agent. None (default) is the seed of the first ancestor in the run.
        save: New folder for the checkpoint at the end. None (default) for none.
        after: Function to call after each interval, with the recorded observation and the new score. Default: nothing.
        trust: Whether the record may name any code as its agent; see `resume`. Default False.
    """
    directory, save = absolute_path(directory), None if save is None else absolute_path(save, "save")
    if save is not None and save.exists():
        raise RunError(f"a replay is saved to a new folder, got {save}, which exists; give another")
    result = Result(directory)
    history = result.history
    if history.best is None:
        raise HistoryError(f"no interval of {directory} has completed, so there is no schedule to replay")
    lineage = history.lineage(result.choice.observation)
    with reading(directory) as store:
        about, signer = store.about, Signer.of(store)
    used = agent_seed(about.get("seed", 0), lineage[0].key) if seed is None else seed
    make: Any = on_record(about, "agent", directory, "replay", trust, signer) if agent is None else agent
    engine: Engine = BatchedEngine(make, about["size"]) if about.get("engine") == "batched" else InProcess(make)
    if save is not None:
        with required("make", save):  # Now, not after hours of training.
            save.mkdir(parents=True)
            save.rmdir()
    scores: list[float] = []
    source: Path | None = None
    with scratch() as temporary:
        try:
            for step, observation in enumerate(lineage):
                draft = temporary / str(step)
                parent = lineage[step - 1].key if step else None
                assignment = Assignment(observation.member, observation.round, history.applied(observation), parent)
                engine.submit(Job(assignment, used, source, draft))
                (report,) = engine.wait()
                if isinstance(report.end, Failure):
                    why = f"{report.end.text}\n{report.end.traceback}".rstrip()
                    raise RunError(f"the schedule must train as it did, but its interval {step} failed: {why}")
                scores.append(report.end.score)
                after(observation, report.end.score)
                if source is not None:
                    shutil.rmtree(source)
                source = draft
        finally:
            engine.close()
        if save is not None and source is not None:
            shutil.move(source, save)
    return Replay(used, tuple(lineage), tuple(scores))
