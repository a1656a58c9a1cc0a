"""Methods and budgets of the paper's Procgen experiment, as the command line names them. Cheap to import."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from popbandits.errors import ArgumentError
from popbandits.methods import Method
from popbandits_experiments.methods import ALL_METHODS

TUNED: dict[str, Method] = {
    name: ALL_METHODS[name]
    for name in ("pbt", "pb2-rand", "pb2-mult", "pb2-mix", "pb2-fuse", "near-pbt", "patient-pbt")
}
"""Methods that tune hyperparameters and augmentation of a population of DrAC agents."""

ALONE = {"ppo": "PPO", "drac": "DrAC", "ucb-drac": "UCB-DrAC"}
"""Methods with one agent and the published hyperparameters."""

PUBLISHED: Mapping[str, Any] = {"lr": 5e-4, "clip": 0.2, "entropy": 0.01, "alpha": 0.1, "augmentation": "crop"}
"""Hyperparameters of an agent that trains alone: the values of the DrAC paper (Raileanu et al. 2021)."""

REPLAY_PUBLISHED: Mapping[str, Any] = {"temperature": 0.1, "staleness": 0.1}
"""What level replay adds to them: its paper's choice for Procgen (Jiang et al. 2021)."""

LABELS = ALONE | {name: method.label for name, method in TUNED.items()}
"""Labels in the order of the paper's tables, then those of methods that it does not have."""

AGENT = "popbandits_experiments.paper.procgen.task:Task"
"""Import path of the agents' maker in a run's record, after `current` maps old paths to new ones."""

UNITS = {"M": 1_000_000, "k": 1_000}


def parse_steps(text: str) -> int:
    """Parse a number of steps such as 25M or 500k.

    >>> parse_steps("25M"), parse_steps("4.1M"), parse_steps("500k"), parse_steps("2048")
    (25000000, 4100000, 500000, 2048)
    """
    unit = UNITS.get(text[-1:], 1)
    try:
        steps = Decimal(text[:-1] if unit > 1 else text) * unit
    except InvalidOperation:
        steps = Decimal(0)
    if not steps.is_finite() or steps < 1 or steps % 1:
        raise ArgumentError(f"steps must be a whole number of at least 1, got {text!r}; write 25M, 500k or 2048")
    return int(steps)


def short(steps: int) -> str:
    """Format a number of steps so that `parse_steps` reads it.

    >>> short(25_000_000), short(500_000), short(2_048)
    ('25M', '500k', '2048')
    """
    return next((f"{steps // size}{unit}" for unit, size in UNITS.items() if steps % size == 0), str(steps))
