"""Plays a population to its end."""

from typing import Any

from popbandits.history import Assignment
from popbandits.population import Population
from popbandits_experiments.contracts import spaces, toy_score

SPACE = {"x": (0.0, 1.0), "h": ["a", "b", "c"]}
MIXED = spaces()["conditional numbers"]


def score(population: Population, assignment: Assignment) -> float:
    """A running total, as a training run's would be; in the direction of the run."""
    parent = None if assignment.parent is None else population.history.find(assignment.parent)
    gain = population.history.sign * toy_score(population.space, assignment.config)
    return gain if parent is None else parent.score + gain


def play(population: Population, order: Any = None) -> Population:
    """To the end; `order` says which of those in training is told next (the first, without it)."""
    training: list[Assignment] = []
    while not population.done:
        training += population.ask()
        assignment = training.pop(0 if order is None else order(training))
        population.tell(assignment, score(population, assignment))
    return population
