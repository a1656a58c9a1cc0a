"""Prioritised level replay: train more on levels from which more can be learnt.

M. Jiang, E. Grefenstette, T. Rocktäschel, *Prioritized Level Replay*, ICML 2021 (arXiv:2010.03934).

| symbol | meaning |
|---|---|
| S_i | score of level i: mean magnitude of the GAE over the steps of its last episode |
| C_i, c | number of episodes when S_i was last renewed; number of episodes so far |
| β, ρ | temperature of the ranks; weight of the staleness |
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from popbandits.basics.typing import BoolArray, FloatArray, IntArray


class LevelReplay:
    """Scores of levels, and draws by them.

    A draw is a new level or a replayed one. The probability of a replay is the share of levels that have been seen.

    Args:
        levels: Number of levels, which are numbered from 0.
        environments: Number of environments that play them.
        shuffled: Whether scores are dealt to the levels anew at every draw: a control, which replays few levels at a
            time like the method, but not those from which more can be learnt. Default False.
    """

    def __init__(self, levels: int, environments: int, shuffled: bool = False) -> None:
        self._shuffled = shuffled
        self.temperature = self.staleness = 0.1
        """β and ρ."""
        self.scores: FloatArray = np.full(levels, np.nan)
        """S, NaN for levels that have not been seen."""
        self.renewed: IntArray = np.zeros(levels, np.int64)
        """C."""
        self.episodes = 0
        """c."""
        self._sums, self._lengths = np.zeros(environments), np.zeros(environments, np.int64)

    def begin(self) -> None:
        """Forget unfinished episodes, since new environments start."""
        self._sums[:] = self._lengths[:] = 0

    def add(self, levels: npt.NDArray[np.integer[Any]], ended: BoolArray, advantages: FloatArray) -> None:
        """Renew the scores of the levels of a rollout (steps, environments); unfinished episodes count as far as known.

        Of several episodes on a level, the last one counts.
        """
        # Paper: C is set when a level is drawn. Here: when its score is renewed, because levels are drawn ahead.
        sums = np.vstack([np.zeros(len(self._sums)), np.abs(advantages).cumsum(0)])
        begun = np.zeros(len(self._sums), np.int64)
        last = len(levels) - 1
        unfinished = [(last, environment) for environment in np.flatnonzero(~ended[last])]
        for step, environment in (*np.argwhere(ended).tolist(), *unfinished):
            first = begun[environment]
            self._sums[environment] += sums[step + 1, environment] - sums[first, environment]
            self._lengths[environment] += step + 1 - first
            self.episodes += bool(ended[step, environment])
            level = levels[first, environment]
            self.scores[level] = self._sums[environment] / self._lengths[environment]
            self.renewed[level] = self.episodes
            if ended[step, environment]:
                self._sums[environment] = self._lengths[environment] = 0
                begun[environment] = step + 1

    def probabilities(self, scores: FloatArray | None = None) -> FloatArray:
        """Return the probability of each level in a replay, by its own scores or others; 0 for levels not seen.

        P = (1 - ρ) P_S + ρ P_C,   P_S ∝ rank(S_i)^(-1/β),   P_C ∝ c - C_i
        """
        scores = self.scores if scores is None else scores
        seen = np.flatnonzero(~np.isnan(scores))
        ranks = np.empty(len(seen))
        ranks[np.argsort(-scores[seen], kind="stable")] = np.arange(1, len(seen) + 1)
        by_score = ranks ** (-1 / self.temperature)
        ages = (self.episodes - self.renewed[seen]).astype(float)
        by_age = ages if ages.any() else np.ones(len(seen))
        probabilities = np.zeros(len(self.scores))
        probabilities[seen] = (1 - self.staleness) * by_score / by_score.sum()
        probabilities[seen] += self.staleness * by_age / by_age.sum()
        return probabilities

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Draw levels for the next episodes; new ones without replacement as long as there are any."""
        # Paper: the distribution changes after every episode. Here: after every rollout, which is when scores do.
        unseen = np.flatnonzero(np.isnan(self.scores)).tolist()
        seen = len(self.scores) - len(unseen)
        replays, picks = rng.random((2, count))
        scores = self.scores.copy()
        if self._shuffled:
            scores[~np.isnan(scores)] = rng.permutation(scores[~np.isnan(scores)])
        sums = (self.probabilities(scores) if seen else np.ones(len(scores))).cumsum()
        drawn: IntArray = np.searchsorted(sums / sums[-1], picks, side="right")
        for place in np.flatnonzero(replays >= seen / len(self.scores)):
            if not unseen:
                break
            drawn[place] = unseen.pop(int(picks[place] * len(unseen)))
        return drawn

    def state(self) -> dict[str, Any]:
        """Return the scores and their ages, as plain values."""
        return {"scores": self.scores.tolist(), "renewed": self.renewed.tolist(), "episodes": self.episodes}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.scores, self.renewed = np.array(state["scores"], float), np.array(state["renewed"], np.int64)
        self.episodes = state["episodes"]
