"""Evaluations at the end of a run: the candidates for what it hands over, each with the same fresh seeds.

Every evaluation is a job of its own, which begins with a load: it depends on its checkpoint and its seed alone,
whatever was evaluated before it and wherever. Nothing is recorded before all are done, so a run that is killed
meanwhile does them again when it is resumed.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from popbandits.basics.wording import counted
from popbandits.engines.engine import Engine
from popbandits.engines.work import Job
from popbandits.errors import DiskError, PopbanditsWarning
from popbandits.history import Assignment, Event, Key
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
        stopping: Function that tells whether the run is to stop, and raises if it is to stop at once.
    """
    if (by_scores := choose_by_scores(population.history, population.plan.control)) is None:
        return True
    candidates = by_scores.candidates
    say(Event("evaluating", f"{counted(len(candidates), 'candidate')} × {counted(count, 'evaluation')}"))
    jobs = _jobs(candidates, population, checkpoints, count)
    scores: dict[Key, float] = {}
    lost = ""
    waiting = list(jobs)
    engine.submit(waiting.pop(0))  # Alone: if the agent has no evaluate, or it fails, the others are not tried.
    while len(scores) < len(jobs):
        if stopping():
            return False
        reports = engine.wait()
        stopping()  # Raises if it is to stop at once: an agent that was interrupted meanwhile has not failed.
        for report in reports:
            scores[report.key] = math.nan if report.outcome is None else report.outcome.score
            if (failure := report.failure) is not None:
                if failure.kind == "lost":  # What is lost is not handed over.
                    lost = failure.text
                    continue
                if failure.kind == "disk":
                    raise DiskError(failure.text)
                if failure.kind != "incomplete":
                    _warn(failure.text, say, failure.traceback)
                return True
        while waiting:
            engine.submit(waiting.pop(0))
    table = np.array([scores[job.assignment.key] for job in jobs]).reshape(-1, count)
    if (choice := choose_by_evaluations(candidates, table, population.history.sign)) is None:
        _warn(lost or "evaluate returned no finite score", say)
    else:
        say(Event(EVALUATED, str(choice), data=choice.to_record(population.history)))
    return True


def _jobs(candidates: Sequence[Candidate], population: Population, checkpoints: Checkpoints, count: int) -> list[Job]:
    """Return the evaluations, candidate by candidate; they are divided among the members, whose agents do them."""
    states = (np.random.SeedSequence(population.seed, spawn_key=(EVALUATION, number)) for number in range(count))
    seeds = [int(state.generate_state(1)[0]) >> 1 for state in states]  # below 2**31, as some libraries want it
    jobs: list[Job] = []
    for one, seed in product((candidate.observation for candidate in candidates), seeds):
        turn, member = divmod(len(jobs), population.size)
        assignment = Assignment(member, turn, one.config, one.key)
        jobs.append(Job(assignment, seed, checkpoints.path(one.key), checkpoints.draft(), seed))
    return jobs


def _warn(reason: str, say: Callable[[Event], None], traceback: str = "") -> None:
    text = f"the candidates of the run could not be evaluated, so it hands over by its scores: {reason}"
    say(Event("unevaluated", text, data={"traceback": traceback} if traceback else {}))
    warnings.warn(text, PopbanditsWarning, stacklevel=2)
