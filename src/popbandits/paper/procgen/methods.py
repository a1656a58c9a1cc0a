"""The paper's experiment on Procgen: its methods and budgets, as the command line names them. Cheap to import."""

from decimal import Decimal, InvalidOperation

from popbandits.errors import ArgumentError
from popbandits.methods import METHODS, Method

TUNED: dict[str, Method] = {name: METHODS[name] for name in ("pbt", "pb2-rand", "pb2-mult", "pb2-mix", "pb2-fuse")}
"""A population of DrAC agents, whose hyperparameters and augmentation are tuned."""

ALONE = {"ppo": "PPO", "drac": "DrAC", "ucb-drac": "UCB-DrAC"}
"""One agent, with the published hyperparameters."""

LABELS = ALONE | {name: method.label for name, method in TUNED.items()}
"""In the order of the paper's tables."""

AGENT = "popbandits.paper.procgen.task:Task"
"""How a run's record names what makes its agents, `current` as it is now."""

UNITS = {"M": 1_000_000, "k": 1_000}


def parse_steps(text: str) -> int:
    """A number of steps as people write it.

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
    """A number of steps as `parse_steps` takes it.

    >>> short(25_000_000), short(500_000), short(2_048)
    ('25M', '500k', '2048')
    """
    return next((f"{steps // size}{unit}" for unit, size in UNITS.items() if steps % size == 0), str(steps))
