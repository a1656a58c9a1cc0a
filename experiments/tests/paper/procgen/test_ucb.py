from math import log, sqrt

import pytest

from popbandits_experiments.paper.procgen.ucb import UCB

ARMS = ["crop", "flip", "rotate"]


def test_it_plays_the_largest_bound() -> None:
    bandit, played = UCB(ARMS), []
    worth = {"crop": 0.02, "flip": 0.05, "rotate": 0.0}
    counts, total = dict.fromkeys(ARMS, 1), 1
    for _ in range(60):
        bounds = {arm: (worth[arm] if counts[arm] > 1 else 0.0) + 0.1 * sqrt(log(total) / counts[arm]) for arm in ARMS}
        arm = bandit.choose()
        assert bounds[arm] == pytest.approx(max(bounds.values()))
        bandit.reward(worth[arm])
        counts[arm] += 1
        total += 1
        played.append(arm)
    assert played[0] == "crop"
    assert set(played) == set(ARMS)
    assert max(ARMS, key=played.count) == "flip"


def test_only_the_last_ten_returns_of_an_arm_count() -> None:
    bandit = UCB(["crop"])
    for mean_return in [100.0] * 5 + [1.0] * 10:
        bandit.choose()
        bandit.reward(mean_return)
    assert bandit.state()["returns"] == {"crop": [1.0] * 10}


def test_before_the_first_update_there_is_nothing_to_reward() -> None:
    bandit = UCB(ARMS)
    bandit.reward(5.0)
    assert bandit.state() == UCB(ARMS).state()


def test_it_goes_on_from_its_state() -> None:
    bandit, other = UCB(ARMS), UCB(ARMS)
    for step in range(7):
        bandit.choose()
        bandit.reward(0.01 * step)
    bandit.choose()
    other.restore(bandit.state())
    for step in range(20):
        for each in (bandit, other):
            each.reward(0.1 * (step % 3))
        assert bandit.choose() == other.choose()
