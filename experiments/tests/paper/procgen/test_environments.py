import envpool
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
    Levels,
    Pool,
    RewardNormaliser,
)

NOTHING = 4  # The action that does nothing.


def frames(size: int) -> Frames:
    return np.zeros((size, 3, 64, 64), np.uint8)


def actions(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.integers(ACTIONS, size=size).astype(np.int32)


@pytest.mark.parametrize("difficulty", ["easy", "hard"])
@pytest.mark.parametrize("game", GAMES)
def test_every_game_can_be_played(game: str, difficulty: str) -> None:
    pool = Pool(game, LEVELS["train"], size=2, seed=0, difficulty=difficulty, threads=1)
    seen = frames(2)
    pool.reset(seen)
    rewards, ended = pool.step(np.zeros(2, np.int32), seen)
    assert seen.any()
    assert rewards.shape == ended.shape == (2,)
    pool.close()


def test_the_papers_games_are_seven_of_sixteen() -> None:
    assert len(GAMES) == 16
    assert len(PAPER_GAMES) == 7
    assert set(PAPER_GAMES) < set(GAMES)


def test_a_game_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ArgumentError, match="game must be one of Procgen's, got 'pong'; choose from bigfish"):
        Pool("pong", LEVELS["train"], size=1, seed=0)


def test_an_episodes_end_is_followed_by_the_next_ones_first_frame() -> None:
    """The stream is EnvPool's own without the rows that only start an episode."""
    raw = envpool.make_gymnasium("BossfightEasy-v0", num_envs=1, seed=5, num_levels=200, num_threads=1)
    first, _ = raw.reset()
    pool, seen = Pool("bossfight", LEVELS["train"], size=1, seed=5, threads=1), frames(1)
    pool.reset(seen)
    assert np.array_equal(seen, first)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(250):
        action = actions(rng, 1)
        rewards, ended = pool.step(action, seen)
        expected, reward, terminated, truncated, _ = raw.step(action)
        assert rewards == reward
        assert ended == terminated | truncated
        if ended[0]:
            ends += 1
            expected, reward, _, _, info = raw.step(np.array([NOTHING], np.int32))  # It ignores this action.
            assert (reward[0], info["elapsed_step"][0]) == (0, 0)
        assert np.array_equal(seen, expected)
    assert ends > 2


def test_a_time_out_is_an_end_like_any_other() -> None:
    pool, seen = Pool("leaper", LEVELS["train"], size=1, seed=0, threads=1), frames(1)
    pool.reset(seen)
    lengths, length = [], 0
    while len(lengths) < 2:
        _, ended = pool.step(np.full(1, NOTHING, np.int32), seen)
        length += 1
        if ended[0]:
            lengths.append(length)
            length = 0
    assert lengths == [500, 500]  # A row that starts an episode would make the second one 501.


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


def test_a_seed_gives_the_same_episodes_again_and_another_seed_others() -> None:
    def play(seed: int) -> tuple[list[int], Frames]:
        pool, seen = Pool("bossfight", Levels(0, 200), size=4, seed=seed, threads=2), frames(4)
        pool.reset(seen)
        rng, levels = np.random.default_rng(0), []
        for _ in range(60):
            pool.step(actions(rng, 4), seen)
            levels += pool.level_seeds.tolist()
        return levels, seen

    levels, last = play(3)
    again, last_again = play(3)
    assert levels == again
    assert np.array_equal(last, last_again)
    assert play(4)[0] != levels


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
            rewards, ended = pool.step(choose(seen), seen)
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
