"""Whether a scheduler did what the population decides."""

from pathlib import Path
from typing import Any

import pytest

import popbandits
from popbandits import History, Population, Selection, Truncation
from tests.ray.trainables import gain


def check(
    folder: Path, name: str, synch: bool, size: int, start: Any = None, selection: Selection | None = None
) -> History:
    """That every trial trained what the population would have decided, from the weights that it would have chosen."""
    history = History.load(folder)
    method = getattr(popbandits, name)()
    selection = Truncation(0.5) if selection is None else selection
    population = Population(
        history.space,
        method,
        size,
        rounds=None,
        mode=history.mode,
        selection=selection,
        synchronous=synch,
        start=start,
    )
    asked: dict[tuple[int, int], Any] = {}
    for o in history:
        asked |= {assignment.key: assignment for assignment in population.ask()}
        assignment = asked.pop(o.key)
        trained = history.applied(o)
        assert (trained, o.parent) == (assignment.config, assignment.parent)
        population.tell(assignment, o.score, steps=o.steps, metrics=o.metrics, lost=o.status == "lost")
        if not o.failed:
            before = history.find(o.parent).score if o.parent else 0.0
            assert o.score == pytest.approx(before + o.steps * gain(trained))
    return history
