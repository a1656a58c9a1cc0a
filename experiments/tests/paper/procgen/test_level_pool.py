"""Real environments that play chosen levels."""

import numpy as np
import pytest

from popbandits.errors import AgentError
from popbandits_experiments.paper.procgen import level_pool
from popbandits_experiments.paper.procgen.environments import ACTIONS, LEVELS, PAPER_GAMES, Frames, Levels, Pool
from popbandits_experiments.paper.procgen.level_pool import LevelPool, seeds_by_level
from popbandits_experiments.paper.procgen.reserve_pool import ReservePool

GAME = "bossfight"  # Episodes are short.
TRAIN = LEVELS["train"]


def frames(size: int) -> Frames:
    return np.zeros((size, 3, 64, 64), np.uint8)


def choose(seen: Frames) -> np.ndarray:
    """An action that the smallest change of a frame changes."""
    weights = np.arange(seen[0].size) % 97
    return (seen.astype(np.int64).reshape(len(seen), -1) @ weights % ACTIONS).astype(np.int32)


Episode = tuple[int, list[float]]


def play(
    pool: ReservePool | LevelPool, steps: int, size: int
) -> tuple[list[int], dict[int, set[bytes]], list[Episode]]:
    """Return the levels in order, the first frames by level, and level and rewards of each episode that ended."""
    seen = frames(size)
    running: list[list[float]] = [[] for _ in range(size)]
    episodes: list[Episode] = []
    pool.reset(seen)
    levels: list[int] = pool.level_seeds.tolist()
    first: dict[int, set[bytes]] = {}
    for place, level in enumerate(levels):
        first.setdefault(level, set()).add(seen[place].tobytes())
    for _ in range(steps):
        before = pool.level_seeds.tolist()
        rewards, ended = pool.step(choose(seen), seen)
        for place in range(size):
            running[place].append(float(rewards[place]))
            if ended[place]:
                episodes.append((before[place], running[place]))
                running[place] = []
                levels.append(int(pool.level_seeds[place]))
                first.setdefault(levels[-1], set()).add(seen[place].tobytes())
    pool.close()
    return levels, first, episodes


@pytest.mark.parametrize("game", PAPER_GAMES)
def test_the_chosen_levels_are_played_in_every_game_of_the_paper(game: str) -> None:
    pool, seen = LevelPool(game, TRAIN, size=4, threads=2), frames(4)
    pool.choose([199, 0, 77, 77])
    pool.reset(seen)
    assert pool.level_seeds.tolist() == [199, 0, 77, 77]  # As EnvPool says, or it raises.
    assert np.array_equal(seen[2], seen[3])
    only, alone = Pool(game, Levels(199, 1), size=1, seed=5, threads=1), frames(1)
    only.reset(alone)
    assert np.array_equal(seen[0], alone[0])
    only.close()
    pool.close()


def test_episodes_follow_the_queue_and_a_level_is_the_same_whenever_it_is_played() -> None:
    queue = np.random.default_rng(0).integers(20, size=30).tolist()
    pool = LevelPool(GAME, TRAIN, size=3, threads=2)
    pool.choose(queue)
    levels, first, episodes = play(pool, 400, 3)
    assert len(levels) > 9
    assert levels == (queue * 9)[: len(levels)]
    assert all(len(seen) == 1 for seen in first.values())
    assert len({seen for (seen,) in first.values()}) == len(first)
    assert len(episodes) == len(levels) - 3
    for level in {level for level, _ in episodes}:  # Actions depend on frames alone, so a level's episodes are equal.
        expected = play(ReservePool(GAME, Levels(level, 1), size=1, seed=1, threads=1), 400, 1)[2][0]
        assert all(episode == expected for episode in episodes if episode[0] == level)


def test_a_new_queue_waits_for_environments_that_are_made_and_starts_over_at_its_end() -> None:
    pool, seen = LevelPool(GAME, TRAIN, size=2, threads=1), frames(2)
    pool.choose([1, 2, 3, 4])
    pool.reset(seen)
    levels = pool.level_seeds.tolist()
    while len(levels) < 3:
        _, ended = pool.step(choose(seen), seen)
        levels += pool.level_seeds[ended].tolist()
    made = [made.level for made in pool._made]
    pool.choose([8, 9, 10])
    while len(levels) < 10:
        _, ended = pool.step(choose(seen), seen)
        levels += pool.level_seeds[ended].tolist()
    pool.close()
    expected = [*levels[:3], *made, 8, 9, 10, 8, 9, 10, 8, 9]
    assert levels[:10] == expected[:10]


def test_pools_are_closed_when_all_their_environments_have_played(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Pool] = []
    closed: list[Pool] = []

    class Watched(Pool):
        def __init__(self, *args: object, **how: object) -> None:
            super().__init__(*args, **how)  # type: ignore[arg-type]
            opened.append(self)

        def close(self) -> None:
            closed.append(self)
            super().close()

    monkeypatch.setattr(level_pool, "Pool", Watched)
    pool, seen = LevelPool(GAME, TRAIN, size=4, threads=1), frames(4)
    pool.choose(range(50))
    pool.reset(seen)
    for _ in range(300):
        pool.step(choose(seen), seen)
        playing = {*pool._pool.values(), *(made.pool for made in pool._made)}
        assert [one for one in opened if one not in closed] == [one for one in opened if one in playing]
    assert len(closed) > 2
    pool.close()
    assert sorted(map(id, opened)) == sorted(map(id, closed))  # Each once.


def test_levels_that_envpool_draws_otherwise_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_pool, "seeds_by_level", lambda levels: {3: seeds_by_level(levels)[4]})
    pool = LevelPool(GAME, TRAIN, size=1, threads=1)
    pool.choose([3])
    with pytest.raises(AgentError, match="this EnvPool draws levels by another rule: level 3 was chosen, got 4"):
        pool.reset(frames(1))
    pool.close()
