import numpy as np
import pytest

from popbandits.errors import ArgumentError
from popbandits_experiments.paper.procgen.environments import (
    ACTIONS,
    GAMES,
    LEVELS,
    PAPER_GAMES,
    EpisodeQueue,
    EpisodeReturns,
    Frames,
    Pool,
    RewardNormaliser,
)


def frames(size: int) -> Frames:
    return np.zeros((size, 3, 64, 64), np.uint8)


def actions(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.integers(ACTIONS, size=size).astype(np.int32)


def test_the_papers_games_are_seven_of_sixteen() -> None:
    assert len(GAMES) == 16
    assert len(PAPER_GAMES) == 7
    assert set(PAPER_GAMES) < set(GAMES)


def test_a_game_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ArgumentError, match="game must be one of Procgen's, got 'pong'; choose from bigfish"):
        Pool("pong", LEVELS["train"], size=1, seed=0)


@pytest.mark.parametrize(("name", "low", "high"), [("train", 0, 200), ("validation", 1_000_000, 1_001_000)])
def test_levels_are_drawn_from_their_set(name: str, low: int, high: int) -> None:
    pool, seen = Pool("bossfight", LEVELS[name], size=32, seed=1, threads=1), frames(32)
    pool.reset(seen)
    assert pool.level_seeds.min() >= low
    assert pool.level_seeds.max() < high
    assert len(set(pool.level_seeds)) > 10


def test_test_levels_come_from_everywhere() -> None:
    pool, seen = Pool("bossfight", LEVELS["test"], size=64, seed=1, threads=1), frames(64)
    pool.reset(seen)
    assert pool.level_seeds.max() > 2**30


def test_validation_levels_are_apart_from_training_levels() -> None:
    train, validation = LEVELS["train"], LEVELS["validation"]
    assert train.start + train.count <= validation.start


@pytest.mark.parametrize("ids", [None, [5, 0, 3]], ids=["all", "some"])
def test_a_step_is_that_of_the_public_interface_of_envpool(ids: list[int] | None) -> None:
    ours, theirs = (Pool("bossfight", LEVELS["train"], size=8, seed=3, threads=1) for _ in range(2))
    for pool in (ours, theirs):
        pool.reset(frames(8))
    rng, numbers = np.random.default_rng(0), None if ids is None else np.array(ids, np.int32)
    ends = 0
    for _ in range(300):
        chosen = actions(rng, 8 if ids is None else len(ids))
        ours.send(chosen, numbers)
        seen, rewards, ended = ours.receive()
        theirs.envpool.send(chosen, numbers)
        expected, expected_rewards, terminated, truncated, info = theirs.envpool.recv()
        assert np.array_equal(seen, expected)
        assert np.array_equal(rewards, expected_rewards)
        assert np.array_equal(ended, terminated | truncated)
        assert np.array_equal(ours.level_seeds[info["env_id"]], info["level_seed"])
        ends += int(ended.sum())
    assert ends > 3


def test_a_queue_plays_the_first_episode_of_each_environment_as_if_all_were_stepped() -> None:
    def choose(seen: Frames) -> np.ndarray:
        """An action that the smallest change of a frame changes."""
        return (seen.astype(np.int64).reshape(len(seen), -1) @ (np.arange(seen[0].size) % 97) % ACTIONS).astype(
            np.int32
        )

    def pools() -> list[Pool]:
        return [Pool("starpilot", LEVELS[name], size=5, seed=3, threads=2) for name in ("train", "test")]

    expected = []
    for pool in pools():
        seen, returns, playing = frames(5), np.zeros(5), np.ones(5, bool)
        pool.reset(seen)
        while playing.any():
            pool.send(choose(seen))
            seen[:], rewards, ended = pool.receive()
            returns += rewards * playing
            playing &= ~ended
        expected.append(returns.tolist())
    batch = frames(3)
    queue = EpisodeQueue(pools(), batch)
    while queue.playing:
        queue.step(choose(batch))
    assert [returns.tolist() for returns in queue.returns] == expected
    assert len({each for returns in expected for each in returns}) > 2


def test_rewards_are_scaled_by_the_spread_of_discounted_returns() -> None:
    rng = np.random.default_rng(0)
    rewards, ended = rng.normal(3, 2, (400, 4)), rng.random((400, 4)) < 0.1
    normaliser = RewardNormaliser(4)
    scaled = np.concatenate([normaliser(rewards[part], ended[part]) for part in (slice(150), slice(150, None))])
    returns, every = np.zeros(4), []
    for step in range(400):
        returns = 0.99 * returns + rewards[step]
        every += returns.tolist()
        returns = np.where(ended[step], 0, returns)
        if step > 100:
            assert scaled[step] == pytest.approx(rewards[step] / np.std(every), rel=1e-3)


def test_scaled_rewards_are_clipped_at_ten() -> None:
    rewards = np.zeros((101, 2))
    rewards[100] = 1e6, -1e6
    assert RewardNormaliser(2)(rewards, np.zeros((101, 2), bool))[100].tolist() == [10, -10]


def test_beginning_anew_forgets_returns_under_way_and_keeps_the_spread() -> None:
    normaliser = RewardNormaliser(1)
    normaliser(np.array([[5.0]]), np.array([[False]]))
    before = normaliser.variance
    normaliser.begin()
    assert normaliser.variance == before
    normaliser(np.array([[0.0]]), np.array([[False]]))
    assert normaliser.mean == pytest.approx(2.5, rel=1e-3)  # Of 5 and 0, not of 5 and 0.99 * 5.


def test_the_last_hundred_returns_are_raw_and_in_order() -> None:
    episodes = EpisodeReturns(2)
    episodes(np.array([[1.0, 10], [2, 20]]), np.array([[False, False], [True, False]]))
    episodes(np.array([[5.0, 30]]), np.array([[False, True]]))
    assert episodes.last == [3, 60]
    many = np.stack([np.arange(150.0), np.zeros(150)], 1)
    episodes.begin()
    episodes(many, np.stack([np.ones(150, bool), np.zeros(150, bool)], 1))
    assert episodes.ended == 152
    assert episodes.last == list(range(50, 150))
