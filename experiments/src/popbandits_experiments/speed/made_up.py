"""A made-up run to time decisions and pages on: four floats and a choice of eight labels, whose best values move."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np

from popbandits.history import Observation

DIMENSIONS = 4
LABELS = [f"label {i}" for i in range(8)]
SPACE: dict[str, Any] = {**{f"x{i}": (0.0, 1.0) for i in range(DIMENSIONS)}, "h": LABELS}
NOISE = 0.1  # standard deviation; gains are between 0 and 1
PERIOD = 60.0  # rounds until the best values return to where they were


def made_up_rounds(members: int, seed: int = 0) -> Iterator[list[Observation]]:
    """Yield the observations of round after round, without end.

    Each round the worst quarter takes the weights of the best and new configurations. The others keep theirs, so a
    configuration is seen for several rounds in a row, as in a real run. With label h a round gains
    height_h exp(-|x - c_h|^2 / 0.5): one hill, whose top c_h moves slowly in a circle.
    """
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi, (len(LABELS), DIMENSIONS))
    height = rng.uniform(0.3, 1.0, len(LABELS))
    x = rng.uniform(size=(members, DIMENSIONS))
    h = rng.integers(len(LABELS), size=members)
    score, quarter = np.zeros(members), max(1, members // 4)
    for t in count():
        parents = list(range(members))
        if t > 0:
            order = np.argsort(score).tolist()
            for worst, best in zip(order[:quarter], order[-quarter:], strict=True):
                near = np.clip(x[best] + 0.1 * rng.standard_normal(DIMENSIONS), 0, 1)
                x[worst] = near if rng.random() < 0.5 else rng.uniform(size=DIMENSIONS)
                h[worst] = rng.integers(len(LABELS))
                score[worst], parents[worst] = score[best], best
        top = 0.5 + 0.35 * np.sin(2 * np.pi * t / PERIOD + phase[h])
        gains = height[h] * np.exp(-np.sum((x - top) ** 2, axis=1) / 0.5)
        after = score + gains + NOISE * rng.standard_normal(members)
        yield [
            Observation(
                member,
                t,
                dict(zip(SPACE, [*x[member].tolist(), LABELS[h[member]]], strict=True)),
                (parents[member], t - 1) if t > 0 else None,
                score[member],
                after[member],
            )
            for member in range(members)
        ]
        score = after
