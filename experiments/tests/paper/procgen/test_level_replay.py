"""Prioritised level replay against a plain version of the paper's equations, which goes step by step."""

import json
from math import isnan, nan

import numpy as np
import pytest

from popbandits_experiments.paper.procgen.level_replay import LevelReplay


class Plain:
    """The same, one step and one level at a time."""

    def __init__(self, levels: int, environments: int, temperature: float, staleness: float) -> None:
        self.scores, self.renewed, self.episodes = [nan] * levels, [0] * levels, 0
        self.temperature, self.staleness = temperature, staleness
        self.played: list[list[float]] = [[] for _ in range(environments)]

    def add(self, levels: np.ndarray, ended: np.ndarray, advantages: np.ndarray) -> None:
        for step in range(len(levels)):
            for environment, played in enumerate(self.played):
                played.append(abs(advantages[step, environment]))
                if ended[step, environment]:
                    self.episodes += 1
                    self.score(levels[step, environment], played)
                    played.clear()
        for environment, played in enumerate(self.played):
            if played:
                self.score(levels[-1, environment], played)

    def score(self, level: int, played: list[float]) -> None:
        self.scores[level] = sum(played) / len(played)
        self.renewed[level] = self.episodes

    def probabilities(self) -> list[float]:
        seen = [level for level, score in enumerate(self.scores) if not isnan(score)]
        weights, ages = {}, {}
        for level in seen:
            before = [i for i in seen if (-self.scores[i], i) < (-self.scores[level], level)]
            weights[level] = (1 / (1 + len(before))) ** (1 / self.temperature)
            ages[level] = self.episodes - self.renewed[level]
        if not any(ages.values()):
            ages = dict.fromkeys(seen, 1)
        return [
            (1 - self.staleness) * weights[level] / sum(weights.values())
            + self.staleness * ages[level] / sum(ages.values())
            if level in seen
            else 0.0
            for level in range(len(self.scores))
        ]

    def draw(self, count: int, rng: np.random.Generator) -> list[int]:
        unseen = [level for level, score in enumerate(self.scores) if isnan(score)]
        seen = len(self.scores) - len(unseen)
        replays, picks = rng.random((2, count)).tolist()
        weights = self.probabilities() if seen else [1 / len(self.scores)] * len(self.scores)
        drawn = []
        for replay, pick in zip(replays, picks, strict=True):
            if unseen and replay >= seen / len(self.scores):
                drawn.append(unseen.pop(int(pick * len(unseen))))
                continue
            level, below = -1, 0.0
            while below <= pick:
                level += 1
                below += weights[level]
            drawn.append(level)
        return drawn


@pytest.mark.parametrize("temperature", [0.1, 0.7, 2.0])
@pytest.mark.parametrize("staleness", [0.0, 0.1, 1.0])
def test_scores_probabilities_and_draws_are_those_of_the_plain_version(temperature: float, staleness: float) -> None:
    replay, plain = LevelReplay(9, 3), Plain(9, 3, temperature, staleness)
    replay.temperature, replay.staleness = temperature, staleness
    rng = np.random.default_rng(5)
    queue = iter(replay.draw(400, np.random.default_rng(0)).tolist())
    playing = [next(queue) for _ in range(3)]
    for seed in range(12):
        levels = np.zeros((20, 3), int)
        ended = rng.random((20, 3)) < 0.08
        for step in range(20):
            levels[step] = playing
            playing = [next(queue) if end else level for level, end in zip(playing, ended[step], strict=True)]
        advantages = rng.normal(0, 1 + levels)
        replay.add(levels, ended, advantages)
        plain.add(levels, ended, advantages)
        assert replay.scores == pytest.approx(plain.scores, rel=1e-12, nan_ok=True)
        assert replay.renewed.tolist() == plain.renewed
        assert replay.episodes == plain.episodes
        assert replay.probabilities() == pytest.approx(plain.probabilities(), abs=1e-12)
        assert replay.probabilities().sum() == pytest.approx(1, abs=1e-12)
        drawn = replay.draw(50, np.random.default_rng(seed)).tolist()
        assert drawn == plain.draw(50, np.random.default_rng(seed))
        queue = iter(drawn)
    assert not np.isnan(replay.scores).any()


def test_what_is_drawn_first_is_every_level_once() -> None:
    drawn, other = (LevelReplay(7, 2).draw(20, np.random.default_rng(seed)).tolist() for seed in (0, 1))
    assert sorted(drawn[:7]) == sorted(other[:7]) == list(range(7))
    assert drawn[:7] != other[:7]
    assert set(drawn[7:]) <= set(range(7))


def seen(*scores: float) -> LevelReplay:
    """A replay in which each level was played for an episode of one step."""
    replay = LevelReplay(len(scores), 1)
    for level, score in enumerate(scores):
        if not isnan(score):
            replay.add(np.array([[level]]), np.array([[True]]), np.array([[score]]))
    return replay


def test_replays_become_more_likely_with_the_share_of_levels_seen() -> None:
    replay = seen(*[1.0] * 30, *[nan] * 70)
    drawn = np.concatenate([replay.draw(20, np.random.default_rng(seed)) for seed in range(200)])
    assert (drawn < 30).mean() == pytest.approx(0.3, abs=0.03)


def test_the_worked_example_of_ranks_and_ages() -> None:
    replay = seen(-4.0, 1.0, 2.0)  # Magnitudes count; the ages are 2, 1 and 0.
    replay.temperature, replay.staleness = 0.5, 0.3
    weights, ages = np.array([1, 1 / 9, 1 / 4]), np.array([2, 1, 0])
    assert replay.probabilities() == pytest.approx(0.7 * weights / weights.sum() + 0.3 * ages / 3, abs=1e-12)


def test_a_lower_temperature_prefers_the_highest_score_and_staleness_the_oldest() -> None:
    replay = seen(1.0, 5.0, 3.0)
    replay.temperature, replay.staleness = 0.05, 0.0
    assert replay.probabilities()[1] > 0.999
    replay.staleness = 1.0
    assert replay.probabilities().argmax() == 0


def test_shuffled_scores_replay_one_level_at_a_time_whichever_its_score() -> None:
    replay = LevelReplay(8, 1, shuffled=True)
    replay.scores, replay.staleness = np.arange(8.0), 0.0
    rng = np.random.default_rng(0)
    most = [np.bincount(replay.draw(200, rng), minlength=8) for _ in range(200)]
    assert min(counts.max() for counts in most) > 180  # As with the method, where it is always level 7.
    favourites = np.bincount([counts.argmax() for counts in most], minlength=8)
    assert favourites.min() > 10
    assert replay.scores.tolist() == list(range(8))


def test_a_restored_replay_goes_on_the_same() -> None:
    replay, other = seen(1.0, 5.0, nan, 3.0), LevelReplay(4, 1)
    other.restore(json.loads(json.dumps(replay.state())))
    for each in (replay, other):
        each.add(np.array([[2]]), np.array([[False]]), np.array([[4.0]]))
    assert replay.state() == other.state()
    assert replay.draw(9, np.random.default_rng(1)).tolist() == other.draw(9, np.random.default_rng(1)).tolist()


def test_new_environments_forget_unfinished_episodes_but_not_their_scores() -> None:
    replay = LevelReplay(2, 1)
    replay.add(np.array([[0]]), np.array([[False]]), np.array([[8.0]]))
    replay.begin()
    replay.add(np.array([[1]]), np.array([[True]]), np.array([[2.0]]))
    assert replay.scores.tolist() == [8, 2]
