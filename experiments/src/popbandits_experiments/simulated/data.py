"""One synthetic history for every library: n observations of a population of four."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MEMBERS = 4
DIMENSIONS = 4
CATEGORIES = 8
NOISE = 0.1  # standard deviation; gains are between 0 and 1
PERIOD = 60.0  # rounds until the optima return to where they were


@dataclass(frozen=True)
class Data:
    """n observations in the order they were made, four a round."""

    member: npt.NDArray[np.int64]  # (n,)
    round: npt.NDArray[np.int64]  # (n,) from 0
    x: npt.NDArray[np.float64]  # (n, 4) in [0, 1]
    h: npt.NDArray[np.int64]  # (n,) in 0..7
    before: npt.NDArray[np.float64]  # (n,) score of the weights at the start of the round
    y: npt.NDArray[np.float64]  # (n,) change in score over the round

    def __len__(self) -> int:
        return len(self.y)

    @property
    def after(self) -> npt.NDArray[np.float64]:
        """Score at the end of each round."""
        return self.before + self.y

    @property
    def standardised(self) -> npt.NDArray[np.float64]:
        """y with mean 0 and standard deviation 1, as our model and BoTorch's get it."""
        standard: npt.NDArray[np.float64] = (self.y - self.y.mean()) / self.y.std()
        return standard

    @property
    def next_round(self) -> int:
        """Round to decide for: the one after the last round."""
        return int(self.round[-1]) + 1

    @property
    def next_category(self) -> int:
        """Category to decide for, in place of the bandit's draw: the last observation's."""
        return int(self.h[-1])


def make_history(n: int, seed: int = 0) -> Data:
    """Play n intervals: each round the worst member takes the best one's weights and a new configuration.

    The other three keep theirs, so a configuration is seen for several rounds in a row, as in a real run.
    """
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi, (CATEGORIES, DIMENSIONS))
    height = rng.uniform(0.3, 1.0, CATEGORIES)

    def gain(x: npt.NDArray[np.float64], h: int, t: int) -> float:
        """height_h exp(-|x - c_h(t)|^2 / 0.5): one hill per category, whose top c_h(t) moves slowly in a circle."""
        top = 0.5 + 0.35 * np.sin(2 * np.pi * t / PERIOD + phase[h])
        return float(height[h] * np.exp(-np.sum((x - top) ** 2) / 0.5))

    x = rng.uniform(size=(MEMBERS, DIMENSIONS))
    h = rng.integers(CATEGORIES, size=MEMBERS)
    score = np.zeros(MEMBERS)
    rows = []
    for i in range(n):
        t, member = divmod(i, MEMBERS)
        if t > 0 and member == 0:
            worst, best = np.argmin(score), np.argmax(score)
            near = np.clip(x[best] + 0.1 * rng.standard_normal(DIMENSIONS), 0, 1)
            x[worst] = near if rng.random() < 0.5 else rng.uniform(size=DIMENSIONS)
            h[worst] = rng.integers(CATEGORIES)
            score[worst] = score[best]
        y = gain(x[member], int(h[member]), t) + NOISE * rng.standard_normal()
        rows.append((member, t, x[member].copy(), int(h[member]), score[member], y))
        score[member] += y
    member_, round_, x_, h_, before, y_ = zip(*rows, strict=True)
    return Data(
        member=np.array(member_),
        round=np.array(round_),
        x=np.array(x_),
        h=np.array(h_),
        before=np.array(before),
        y=np.array(y_),
    )
