"""Environments in reserve: what is seen of an episode is as if its environment played alone."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from popbandits_experiments.paper.procgen.environments import ACTIONS, GAMES, LEVELS, Frames, Levels, Pool
from popbandits_experiments.paper.procgen.reserve_pool import ReservePool

NOTHING = 4  # The action that does nothing.


def frames(size: int) -> Frames:
    return np.zeros((size, 3, 64, 64), np.uint8)


def actions(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.integers(ACTIONS, size=size).astype(np.int32)


@pytest.mark.parametrize("difficulty", ["easy", "hard"])
@pytest.mark.parametrize("game", GAMES)
def test_every_game_can_be_played(game: str, difficulty: str) -> None:
    pool = ReservePool(game, LEVELS["train"], size=2, seed=0, difficulty=difficulty, threads=1)
    seen = frames(2)
    pool.reset(seen)
    rewards, ended = pool.step(np.zeros(2, np.int32), seen)
    assert seen.any()
    assert rewards.shape == ended.shape == (2,)
    pool.close()


@dataclass
class Episode:
    """What was done and seen in an episode, from its first frame on; an unfinished one has no end."""

    level: int
    seen: list[bytes]
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    ended: bool = False


def play(pool: ReservePool, steps: int, act: int | None) -> dict[int, list[Episode]]:
    """Play and return the episodes of each environment by number, in order."""
    rng, shown = np.random.default_rng(0), frames(pool.size)
    pool.reset(shown)
    episodes: dict[int, list[Episode]] = {}

    def begin(place: int) -> Episode:
        made = Episode(int(pool.level_seeds[place]), [shown[place].tobytes()])
        episodes.setdefault(int(pool._number[place]), []).append(made)
        return made

    current = [begin(place) for place in range(pool.size)]
    for _ in range(steps):
        chosen = actions(rng, pool.size) if act is None else np.full(pool.size, act, np.int32)
        rewards, ended = pool.step(chosen, shown)
        for place, episode in enumerate(current):
            episode.actions.append(int(chosen[place]))
            episode.rewards.append(float(rewards[place]))
            if ended[place]:
                episode.ended = True
                current[place] = begin(place)
            else:
                episode.seen.append(shown[place].tobytes())
    pool.close()
    return episodes


def check_alone(pool: Pool, number: int, episodes: list[Episode]) -> None:
    """Play the episodes of an environment again, by EnvPool alone, and compare."""
    ids, nothing = np.array([number], np.int32), np.array([NOTHING], np.int32)
    for episode in episodes:
        if episode is not episodes[0]:
            pool.send(nothing, ids)  # It begins the next episode, whatever the action.
            first, (reward,), (ended,) = pool.receive()
            assert (reward, ended) == (0, False)
            assert first[0].tobytes() == episode.seen[0]
        assert pool.level_seeds[number] == episode.level
        for step, (action, expected) in enumerate(zip(episode.actions, episode.rewards, strict=True)):
            pool.send(np.array([action], np.int32), ids)
            shown, (reward,), (ended,) = pool.receive()
            assert reward == expected
            assert ended == (episode.ended and step == len(episode.actions) - 1)
            assert ended or shown[0].tobytes() == episode.seen[step + 1]


@pytest.mark.parametrize(
    ("game", "act", "steps", "least"),
    [
        ("bossfight", None, 250, 20),
        ("leaper", NOTHING, 1_010, 18),  # All of them time out in the same step: more than there are in reserve.
    ],
)
def test_every_episode_is_what_its_environment_plays_alone(game: str, act: int | None, steps: int, least: int) -> None:
    size = 9
    episodes = play(ReservePool(game, LEVELS["train"], size=size, seed=5, threads=2), steps, act)
    assert sum(episode.ended for each in episodes.values() for episode in each) >= least
    alone = Pool(game, LEVELS["train"], size=size + 1, seed=5, threads=2)
    first = frames(size + 1)
    alone.reset(first)
    for number, each in episodes.items():
        assert first[number].tobytes() == each[0].seen[0]
        check_alone(alone, number, each)
    alone.close()


def test_new_levels_are_made_beside_steps_while_there_are_environments_in_reserve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Pool, "start", lambda *_: pytest.fail("it waited"))
    episodes = play(ReservePool("bossfight", LEVELS["train"], size=1, seed=5, threads=1), 600, None)
    assert sum(episode.ended for each in episodes.values() for episode in each) > 5
    assert len(episodes) == 2  # The one in reserve plays, too.


def test_a_time_out_is_an_end_like_any_other() -> None:
    pool, seen = ReservePool("leaper", LEVELS["train"], size=1, seed=0, threads=1), frames(1)
    pool.reset(seen)
    lengths, length = [], 0
    while len(lengths) < 2:
        _, ended = pool.step(np.full(1, NOTHING, np.int32), seen)
        length += 1
        if ended[0]:
            lengths.append(length)
            length = 0
    assert lengths == [500, 500]  # A row that starts an episode would make the second one 501.


def test_a_seed_gives_the_same_episodes_again_and_another_seed_others() -> None:
    def levels_and_frames(seed: int) -> tuple[list[int], Frames]:
        pool, seen = ReservePool("bossfight", Levels(0, 200), size=4, seed=seed, threads=2), frames(4)
        pool.reset(seen)
        rng, levels = np.random.default_rng(0), []
        for _ in range(60):
            pool.step(actions(rng, 4), seen)
            levels += pool.level_seeds.tolist()
        return levels, seen

    levels, last = levels_and_frames(3)
    again, last_again = levels_and_frames(3)
    assert levels == again
    assert np.array_equal(last, last_again)
    assert levels_and_frames(4)[0] != levels
