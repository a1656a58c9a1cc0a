"""Evaluations at the end of a run: the candidates for what it hands over, each with the same fresh seeds.

Every evaluation is a job of its own, which begins with a load: it depends on its checkpoint and its seed alone,
whatever was evaluated before it and wherever. Nothing is recorded before all are done, so a run that is killed
meanwhile does them again when it is resumed.
"""

import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from popbandits.basics.wording import counted
from popbandits.engines.engine import Engine
from popbandits.engines.work import Job
from popbandits.errors import DiskError, PopbanditsWarning
from popbandits.history import Assignment, Event
from popbandits.population import Population
from popbandits.selection.choice import Candidate, choose_by_evaluations, choose_by_scores
from popbandits.storage.checkpoints import Checkpoints
from popbandits.storage.queries import EVALUATED

EVALUATION = 4
"""Purpose of a random stream, besides those of the population and of agents: the seeds of evaluations."""


def evaluate(
    engine: Engine,
    population: Population,
    checkpoints: Checkpoints,
    count: int,
    say: Callable[[Event], None],
    stopping: Callable[[], bool],
) -> bool:
    """Evaluate the candidates of a finished run and record the choice; return False if it was to stop meanwhile.

    If the agent has no `evaluate`, or it fails, nothing is chosen here: readers choose by scores.

    Args:
        engine: Engine that does the evaluations.
        population: The population of the run.
        checkpoints: Its checkpoints, of which it holds those of the candidates.
        count: Number of evaluations of each candidate.
        say: Function that records an event.
        stopping: Function that tells whether the run is to stop.
    """
    history = population.history
    if (by_scores := choose_by_scores(history, population.plan.control)) is None:
        return True
    candidates = by_scores.candidates
    jobs = _jobs(candidates, population, checkpoints, count)
    say(Event("evaluating", f"{counted(len(candidates), 'candidate')} × {counted(count, 'evaluation')}"))
    numbers = {job.assignment.key: number for number, job in enumerate(jobs)}
    scores = np.full((len(candidates), count), math.nan)
    engine.submit(jobs[0])  # Alone: if the agent has no evaluate, or it fails, there are no others.
    left, waiting = len(jobs), jobs[1:]
    while left:
        if stopping():
            return False
        for report in engine.wait():
            left -= 1
            failure, outcome = report.failure, report.outcome
            if outcome is not None:
                scores.flat[numbers[report.key]] = outcome.score
            elif failure is not None and failure.kind != "lost":  # A lost checkpoint is not handed over.
                if failure.kind == "disk":
                    raise DiskError(failure.text)
                if failure.kind != "incomplete":
                    _warn(failure.text, say, failure.traceback)
                return True
        for job in waiting:
            engine.submit(job)
        waiting = []
    if (choice := choose_by_evaluations(history, candidates, scores)) is None:
        _warn("evaluate returned no finite score", say)
    else:
        say(Event(EVALUATED, str(choice), data=choice.to_record() | {"observations": len(history)}))
    return True


def _jobs(candidates: Sequence[Candidate], population: Population, checkpoints: Checkpoints, count: int) -> list[Job]:
    """Return the evaluations of all candidates; they are divided among the members, whose agents do them."""
    seeds = [
        int(np.random.SeedSequence(population.seed, spawn_key=(EVALUATION, number)).generate_state(1)[0]) >> 1
        for number in range(count)
    ]
    jobs: list[Job] = []
    for one in (candidate.observation for candidate in candidates):
        for seed in seeds:  # Below 2**31, as some libraries want it.
            turn, member = divmod(len(jobs), population.size)
            assignment = Assignment(member, turn, one.config, one.key)
            jobs.append(Job(assignment, seed, checkpoints.path(one.key), checkpoints.draft(), seed))
    return jobs


def _warn(reason: str, say: Callable[[Event], None], traceback: str = "") -> None:
    text = f"the candidates of the run could not be evaluated, so it hands over by its scores: {reason}"
    say(Event("unevaluated", text, data={"traceback": traceback} if traceback else {}))
    warnings.warn(text, PopbanditsWarning, stacklevel=2)
