"""Freeze and thaw by a model of the curves, after DyHPO (Wistuba et al. 2022, algorithm 1).

A Gaussian process predicts the score of every trial after one more interval, and of new configurations after their
first. The largest expected improvement gets the next interval.

| symbol | meaning |
|---|---|
| x | encoded configuration |
| j | interval that the score follows, from 1 |
| Y | last scores of the curve before it, the latest first, scaled so that 0 is the worst score seen and 1 the best |
| y | score after interval j, standardised |
| y_j | incumbent: the best score after interval j, or the best of all if nobody has got so far |

    EI(x, j) = E[max(f(x, j, Y) - y_j, 0)] = s (z Phi(z) + phi(z)),   z = (mean - y_j) / s

Paper: a deep kernel, whose network reads x, j and Y. Here: the library's kernel of numbers and labels, with j as its
time and Y as further numbers, because 120 scores are few for a network. Paper: one trial at a time. Here: a round for
all slots; those that are already chosen narrow the model (GP-BUCB) and leave the mean.
"""

from collections.abc import Collection

import numpy as np
from scipy.stats import norm

from popbandits.basics.typing import FloatArray
from popbandits.models.gp import Likelihood, NotFittedError, Posterior, Structure, fit, starts
from popbandits.models.kernel import Embedding, Inputs
from popbandits.space.points import Points
from popbandits_experiments.ground.rivals.trials import Draws, Scheduler, Trial

POOL = 128
"""New configurations to choose from; one that is taken is replaced by another draw."""
SEEN = 2
"""Scores of the curve that the model sees."""
ITERATIONS = 30
"""Steps of a fit, which starts from the one before."""


def expected_improvement(mean: FloatArray, deviation: FloatArray, best: FloatArray) -> FloatArray:
    """Compute how much more than the best a score is expected to be.

    >>> float(expected_improvement(np.array([0.0]), np.array([1.0]), np.array([0.0]))[0]).__round__(3)
    0.399
    """
    z = (mean - best) / deviation
    gain: FloatArray = deviation * (z * norm.cdf(z) + norm.pdf(z))
    return gain


class DyHPO(Scheduler):
    """The interval goes where the model expects the largest improvement; nothing is ever out but what failed."""

    def __init__(self, draws: Draws, slots: int, rounds: int):
        super().__init__(draws, slots, rounds)
        space = draws.space
        conditional = np.array([number.conditional for number in space.numerical], dtype=np.bool_)
        self._structure = Structure(Embedding(conditional), SEEN, bool(space.categorical), per_dimension=True)
        self._points: list[Points] = []
        """Encoded configuration of each trial."""
        self._pool: Points | None = None
        self._theta: FloatArray | None = None
        self._posterior: Posterior | None = None

    def start(self) -> Trial:
        """Start a trial with a draw."""
        trial = super().start()
        self._points.append(self.draws.space.encode([trial.config]))
        return trial

    def choose(self, chosen: Collection[Trial]) -> Trial | None:
        """Choose the trial, or the new configuration, with the largest expected improvement."""
        if len(self.trials) < self.slots:
            return self.start()
        if self._pool is None:
            self._pool = self.draws.points(POOL)
        try:
            if not chosen:
                self._posterior = self._fit()
            return self._best([trial for trial in self.trials if trial not in chosen and self.may_go_on(trial)])
        except NotFittedError:
            return self.start()

    def may_go_on(self, trial: Trial) -> bool:
        """Tell whether the trial is neither at the end nor failed."""
        return trial.age < self.rounds and not trial.failed

    @property
    def incumbent(self) -> Trial | None:
        """The trial with the best last score, however long it trained: the one that trained longest may be old."""
        sound = [trial for trial in self.trials if trial.scores and not trial.failed]
        return max(sound, key=lambda trial: trial.last, default=None)

    def _fit(self) -> Posterior:
        """Fit the model to every score so far."""
        trained = [trial for trial in self.trials for _ in trial.scores]
        ages = [j for trial in self.trials for j in range(trial.age)]
        inputs = self._inputs([self._points[trial.number] for trial in trained], trained, ages)
        y = self._standardise(np.concatenate([trial.scores for trial in self.trials if trial.scores]))
        guesses = starts(self._structure) if self._theta is None else self._theta[None]
        self._theta = fit(Likelihood(self._structure, inputs, y), guesses, ITERATIONS).theta
        return Posterior.at(self._structure, self._theta, inputs, y)

    def _best(self, going: list[Trial]) -> Trial:
        """Choose among trials that go on and the pool, and count the choice as pending."""
        assert self._pool is not None
        assert self._posterior is not None
        fresh = [Trial(-1, {}) for _ in range(len(self._pool))]
        candidates = [*going, *fresh]
        points = [self._points[trial.number] for trial in going] + [self._pool]
        inputs = self._inputs(points, candidates, [trial.age for trial in candidates])
        mean, deviation = self._posterior.predict(inputs)
        incumbents = np.array([self._incumbent_at(trial.age) for trial in candidates])
        index = int(expected_improvement(mean, deviation, incumbents).argmax())
        self._posterior = self._posterior.condition(Inputs(*(part[[index]] for part in vars(inputs).values())))
        return going[index] if index < len(going) else self._start_from_pool(index - len(going))

    def _start_from_pool(self, index: int) -> Trial:
        assert self._pool is not None
        point = self._pool[[index]]
        others = self._pool[[i for i in range(len(self._pool)) if i != index]]
        self._pool = Points.concatenate([others, self.draws.points(1)])
        self.trials.append(Trial(len(self.trials), self.draws.space.decode(point)[0]))
        self._points.append(point)
        return self.trials[-1]

    def _inputs(self, points: list[Points], trials: list[Trial], ages: list[int]) -> Inputs:
        """Make the model's inputs of trials at ages: what is known before interval j = age + 1."""
        whole = Points.concatenate(points)
        low, high = self._range
        curves = np.zeros((len(trials), SEEN))
        for row, (trial, age) in enumerate(zip(trials, ages, strict=True)):
            latest = np.nan_to_num(trial.scores[:age][-SEEN:], nan=low)[::-1]
            curves[row, : len(latest)] = (latest - low) / ((high - low) or 1.0)
        return self._structure.inputs(whole.x, whole.h, np.array(ages, dtype=float) + 1, curves)

    @property
    def _range(self) -> tuple[float, float]:
        """Worst and best score so far."""
        scores = np.concatenate([trial.scores for trial in self.trials])
        return (float(np.nanmin(scores)), float(np.nanmax(scores))) if np.isfinite(scores).any() else (0.0, 0.0)

    def _standardise(self, scores: FloatArray) -> FloatArray:
        """Give scores mean 0 and deviation 1; a failure counts as the worst score so far."""
        filled = np.nan_to_num(np.asarray(scores, dtype=float), nan=self._range[0])
        self._mean, self._deviation = float(filled.mean()), float(filled.std()) or 1.0
        made: FloatArray = (filled - self._mean) / self._deviation
        return made

    def _incumbent_at(self, age: int) -> float:
        """Return y_j of the interval after an age, standardised."""
        reached = [trial.scores[age] for trial in self.trials if trial.age > age]
        scores = np.array(reached or np.concatenate([trial.scores for trial in self.trials]))
        best = float(np.nanmax(scores)) if np.isfinite(scores).any() else self._range[1]
        return (best - self._mean) / self._deviation
