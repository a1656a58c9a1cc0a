"""The bandits of a decision: what they learn from, for how long a run, and what a method makes of them."""

from collections import Counter
from math import e, exp, log, sqrt
from typing import Any

import ConfigSpace as cs
import numpy as np
import pytest
from scipy.stats import chisquare

from popbandits.basics.typing import FloatArray
from popbandits.explorers import CoCaBO, PB2Fuse, PB2Mix, PB2Mult
from popbandits.explorers.surrogate import Models
from popbandits.history import Config, History, Observation
from popbandits.models.bandit import TVEXP3M
from popbandits.space import Points
from tests.explorers.histories import ask, peak, trained

LETTERS = list("abcdefgh")
GOOD = LETTERS.index("c")


def chances(method: Any, history: History, name: str = "h") -> FloatArray:
    """The probability of each label, as the decision records it."""
    return np.array(ask(method, history)[0].decision["probabilities"][name])


def lettered(rounds: int, size: int = 4, planned: int | None = 50) -> History:
    """Members that are on one letter after another; "c" gains 1, the others nothing."""
    history = History({"h": LETTERS}, size=size, rounds=planned)
    for round_ in range(rounds):
        for member in range(size):
            letter = LETTERS[(3 * round_ + member) % len(LETTERS)]
            history.append(Observation(member, round_, {"h": letter}, None, 0.0, float(letter == "c")))
    return history


def is_drawn_from(drawn: Counter[str], expected: FloatArray) -> bool:
    """Whether a χ² test at one in a thousand finds nothing against it."""
    counts = np.array([drawn[label] for label in LETTERS[: len(expected)]])
    return bool(chisquare(counts, counts.sum() * expected).pvalue > 0.001)


# What the bandits learn from


def test_the_bandits_learn_from_one_round_after_another() -> None:
    history = lettered(rounds=12)
    bandit = TVEXP3M(arms=8, horizon=50)
    weights = bandit.initial()
    for round_ in range(12):
        told = list(history)[4 * round_ : 4 * round_ + 4]
        letters = np.array([LETTERS.index(o.config["h"]) for o in told])
        weights = bandit.update(weights, letters, np.array([o.score for o in told]), round_)
    expected = bandit.expected_plays(weights, plays=1, round=12, feedback=4)
    assert chances(PB2Mix(), history) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("method", [PB2Mix, PB2Fuse, CoCaBO])
def test_the_bandits_still_tell_labels_apart_after_a_collapse(method: type[PB2Mix]) -> None:
    def gain(config: Config, round_: int) -> float:
        return -1000.0 if (config["h"], round_) == ("c", 5) else {"a": 1.0, "b": 0.0, "c": 0.5}[config["h"]]

    labels = {"h": list("abc")}
    history = trained(labels, gain, rounds=30, size=3, configs=lambda round_: [{"h": h} for h in "abc"])
    now, before = (chances(method(edition=edition), history) for edition in (2, 1))
    assert now[0] - now[1] > 2 * (before[0] - before[1])


def test_a_single_draw_uses_what_all_members_of_a_round_learnt() -> None:
    """With the γ of one play, which is 1 here, every letter would be as likely as any other."""
    assert TVEXP3M(arms=8, horizon=24).gamma(1) == 1.0
    drawn = chances(PB2Mix(), lettered(rounds=24, size=8, planned=24))
    assert drawn[GOOD] > 1.5 * np.delete(drawn, GOOD).max()


def test_labels_are_drawn_with_the_probabilities_on_record() -> None:
    history = lettered(rounds=24, size=8, planned=24)
    drawn = Counter(ask(PB2Mix(), history, seed=seed)[0].config["h"] for seed in range(300))
    assert is_drawn_from(drawn, chances(PB2Mix(), history))
    assert not is_drawn_from(drawn, np.full(8, 1 / 8))


@pytest.mark.parametrize("labels", [["p", "q", "r"], ["r", "q", "p"]])
def test_a_variable_that_was_inactive_is_not_fed_back(labels: list[str]) -> None:
    """Where `inner` is off the most is gained, which says nothing of any of its labels."""
    made = cs.ConfigurationSpace({"outer": ["on", "off"], "inner": cs.Categorical("inner", labels)})
    made.add(cs.EqualsCondition(made["inner"], made["outer"], "on"))
    history = History(made, size=4, rounds=50)
    told: list[tuple[dict[str, Any], float]] = [
        ({"outer": "off"}, 1.0),
        ({"outer": "on", "inner": "p"}, 0.3),
        ({"outer": "on", "inner": "q"}, 0.0),
        ({"outer": "on", "inner": "r"}, 0.3),
    ]
    for round_ in range(10):
        for member, (config, score) in enumerate(told):
            history.append(Observation(member, round_, config, None, 0.0, score))
    by_label = dict(zip(labels, chances(PB2Mix(), history, "inner"), strict=True))
    assert by_label["p"] == pytest.approx(by_label["r"], rel=1e-12)
    assert by_label["q"] < by_label["p"]


# How long the run is for them


@pytest.mark.parametrize("method", [PB2Mix, PB2Mult, PB2Fuse, CoCaBO])
def test_in_a_long_run_the_bandits_are_those_of_a_run_as_long_as_their_window(method: type[PB2Mix]) -> None:
    """They start anew where the window does: γ and α are to be those of ten rounds, not of a thousand."""
    short, long = lettered(rounds=10, planned=10), lettered(rounds=10, planned=1000)
    windowed = chances(method(window=40), long)
    assert windowed == pytest.approx(chances(method(window=40), short), rel=1e-12)
    assert np.abs(windowed - chances(method(window=None), long)).max() > 0.005


def test_a_run_shorter_than_the_window_has_the_bandits_of_a_run_without_one() -> None:
    history = lettered(rounds=10, planned=10)
    assert chances(PB2Mix(window=400), history) == pytest.approx(chances(PB2Mix(window=None), history), rel=1e-12)


def test_without_a_last_round_the_window_alone_is_the_horizon() -> None:
    endless, short = lettered(rounds=10, planned=None), lettered(rounds=10, planned=10)
    assert chances(PB2Mix(window=40), endless) == pytest.approx(chances(PB2Mix(window=40), short), rel=1e-12)


# CoCaBO


def test_cocabos_labels_are_those_of_exp3() -> None:
    """EXP3 (Auer et al. 2002): w <- w exp(γ ĝ / C) and nothing shared, with γ = sqrt(C ln C / ((e - 1) T))."""
    history = lettered(rounds=40, size=1)
    arms, gamma = 8, sqrt(8.0 * log(8.0) / ((e - 1.0) * 50.0))
    weights = np.ones(arms)
    for observation in history:
        played = LETTERS.index(observation.config["h"])
        share = (1.0 - gamma) * weights / weights.sum() + gamma / arms
        weights[played] *= exp(gamma * observation.score / share[played] / arms)
    expected = (1.0 - gamma) * weights / weights.sum() + gamma / arms
    assert expected[GOOD] > 1.5 / arms
    assert chances(CoCaBO(), history) == pytest.approx(expected, rel=1e-12)


# PB2-Fuse


def fused(method: PB2Fuse, history: History, rounds: int = 5, members: int = 60) -> Counter[str]:
    """How often each label is drawn; with c1 = 0 what is pending changes nothing, so that draws are alike."""
    assert method.c1 == 0.0
    return Counter(
        proposal.config["h"] for seed in range(rounds) for proposal in ask(method, history, members=members, seed=seed)
    )


def used_well(round_: int) -> list[Config]:
    """Numbers that are good on "c" and mostly bad elsewhere: who sees labels alone takes it for the best."""
    good, bad = 0.4 + 0.05 * (round_ % 5), (0.0, 0.1, 0.9, 1.0)
    return [
        {"h": "abcd"[i % 4], "x": good if i % 4 == 2 else bad[(round_ + i) % 4] if (round_ + i) % 7 else 0.5}
        for i in range(12)
    ]


FOUR = trained(
    {"h": list("abcd"), "x": (0.0, 1.0)},
    lambda config, _: peak(config["x"], 0.5) + 0.1 * (config["h"] in "bd"),
    rounds=12,
    size=12,
    configs=used_well,
)


def test_where_the_model_has_no_say_pb2_fuse_draws_as_the_bandits_do() -> None:
    drawn = fused(PB2Fuse(c1=0.0, temperature=1e6), FOUR)
    assert is_drawn_from(drawn, chances(PB2Mix(), FOUR))
    assert not is_drawn_from(drawn, np.full(4, 0.25)), "the bandits have a preference"


def test_pb2_fuse_draws_with_the_bandits_probability_times_the_exponential_of_what_the_model_expects() -> None:
    """P(c) ~ q(c) exp(max_x UCB(c, x) / T), with T = 0.25 where nobody says otherwise."""
    model = Models(PB2Fuse(c1=0.0), FOUR.space, FOUR).at(np.zeros(0, dtype=np.int64))
    bound = model.bound(FOUR, FOUR.latest(0))
    grid = np.linspace(0.0, 1.0, 201)[:, None]
    best = np.array([bound(Points(grid, np.full((201, 1), label))).max() for label in range(4)])
    bandits = chances(PB2Mix(), FOUR)

    def at(prior: FloatArray, temperature: float) -> FloatArray:
        weights = prior * np.exp((best - best.max()) / temperature)
        return weights / weights.sum()

    drawn = fused(PB2Fuse(c1=0.0), FOUR)
    assert is_drawn_from(drawn, at(bandits, 0.25))
    for other in (at(bandits, 1.0), at(bandits, 0.0625), at(np.full(4, 0.25), 0.25), bandits):
        assert not is_drawn_from(drawn, other), "the draws are many enough to tell"
