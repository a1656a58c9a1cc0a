"""What each method promises, on histories where the right answer is known."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import ConfigSpace as cs
import numpy as np
import pytest

from popbandits.explorers import PBT, CoCaBO, PB2Fuse, PB2Mix, PB2Mult, PB2Rand, RandomSearch
from popbandits.history import History, Observation
from popbandits.models.acquisition import UpperConfidenceBound
from popbandits.population import Population
from popbandits.space import Space
from tests.explorers.histories import ask, peak, trained

MIXED = {"h": ["a", "b"], "x": (0.0, 1.0)}
BEST = {"a": 0.2, "b": 0.8}
OPPOSITE = trained(MIXED, lambda config, _: peak(config["x"], BEST[config["h"]]), rounds=10)


def within_chance(count: int, of: int, p: float) -> bool:
    """Four standard errors."""
    return abs(count - of * p) <= 4 * np.sqrt(of * p * (1 - p))


# Labels and numbers together


@pytest.mark.parametrize("method", [PB2Mult, PB2Mix, PB2Fuse, CoCaBO])
def test_numbers_are_the_best_at_the_members_own_new_label_not_at_its_parents(method: type[PB2Mix]) -> None:
    for parent in (OPPOSITE.latest(member) for member in range(4)):
        drawn = [
            method(c1=0.0).explore(OPPOSITE.space, OPPOSITE, [], parent, np.random.default_rng(seed))
            for seed in range(12)
        ]
        assert {config["h"] for config in drawn} == {"a", "b"}, "one of the two is not the parent's"
        for config in drawn:
            assert config["x"] == pytest.approx(BEST[config["h"]], abs=0.12)


def test_pb2_rand_does_not_see_labels() -> None:
    swapped = trained(
        MIXED,
        lambda config, _: peak(config["x"], BEST["ab"[config["h"] == "a"]]),
        rounds=10,
        configs=lambda r: [dict(o.config, h="ab"[o.config["h"] == "a"]) for o in OPPOSITE[4 * r : 4 * r + 4]],
    )
    assert [o.score for o in swapped] == pytest.approx([o.score for o in OPPOSITE])

    def numbers(method: Any) -> list[float]:
        return [ask(method, history)[0].config["x"] for history in (OPPOSITE, swapped)]

    blind, seeing = numbers(PB2Rand(c1=0.0, resample_label=1.0)), numbers(PB2Mix(c1=0.0))
    assert blind[0] == pytest.approx(blind[1], abs=1e-6)
    assert abs(seeing[0] - seeing[1]) > 0.3


def test_pb2_rand_keeps_the_parents_label_or_draws_it_from_the_space() -> None:
    parent = OPPOSITE.latest(0)
    assert parent is not None
    kept = [ask(PB2Rand(resample_label=0.0), OPPOSITE, seed=s)[0].config["h"] for s in range(10)]
    assert set(kept) == {parent.config["h"]}
    labels = np.concatenate(
        [PB2Rand().choose_labels(OPPOSITE.space, OPPOSITE, [parent], np.random.default_rng(s))[0] for s in range(1000)]
    )
    own = OPPOSITE.space.encode([parent.config]).h[0, 0]
    assert within_chance(int((labels == own).sum()), 1000, 0.75)


@pytest.mark.parametrize("method", [PB2Rand, PB2Mix, PB2Fuse])
def test_what_is_pending_spreads_the_batch(method: type[PB2Mix], monkeypatch: pytest.MonkeyPatch) -> None:
    history = trained({"x": (0.0, 1.0)}, lambda config, _: peak(config["x"], 0.5), rounds=3, size=3)
    curious = method(c1=20.0)

    def gap(pending: list[Any]) -> float:
        x = [proposal.config["x"] for proposal in ask(curious, history, members=3, pending=pending)]
        return min(abs(a - b) for a in x for b in x if a is not b)

    def moved() -> float:
        alone = ask(curious, history)[0].config
        return abs(ask(curious, history, pending=[alone])[0].config["x"] - alone["x"])

    assert gap([]) > 0.1, "members of one round keep apart"
    assert moved() > 0.1, "and from those that are training already"
    monkeypatch.setattr(UpperConfidenceBound, "with_pending", lambda bound, points: bound)
    assert gap([]) < 0.02, "without pending they would all go to one place"
    assert moved() < 0.02


def test_pending_narrows_only_where_it_is() -> None:
    history = trained(MIXED, lambda config, _: peak(config["x"], BEST[config["h"]]), rounds=3)
    here = {"h": "a", "x": 0.5}
    without, with_it = (ask(PB2Mix(c1=20.0), history, pending=p)[0].config["x"] for p in ([], [here] * 3))
    assert abs(without - with_it) > 0.01


# PB2-Mult


@dataclass(frozen=True)
class AlwaysA(PB2Mult):
    def choose_labels(self, space: Any, history: Any, parents: Any, rng: Any) -> Any:
        return np.zeros((len(parents), 1), dtype=np.int64), {}


@dataclass(frozen=True)
class AlwaysAMixed(PB2Mix):
    choose_labels = AlwaysA.choose_labels


def test_pb2_mult_learns_from_the_rows_of_its_own_label_alone() -> None:
    upside_down = trained(
        MIXED,
        lambda config, _: peak(config["x"], 0.2) if config["h"] == "a" else 9.0 * config["x"],
        rounds=10,
        configs=lambda r: [o.config for o in OPPOSITE[4 * r : 4 * r + 4]],
    )

    def numbers(method: Any) -> list[float]:
        return [ask(method, history)[0].config["x"] for history in (OPPOSITE, upside_down)]

    own, shared = numbers(AlwaysA(c1=0.0)), numbers(AlwaysAMixed(c1=0.0))
    assert own == pytest.approx([0.2, 0.2], abs=0.1)
    assert abs(own[0] - own[1]) < 1e-4, "but for rounding, as the scores are other totals"
    assert abs(shared[0] - shared[1]) > 1e-3


def test_pb2_mult_gives_each_label_its_own_parameters() -> None:
    made = cs.ConfigurationSpace({"kind": ["sgd", "adam"], "momentum": (0.0, 1.0), "beta": (0.0, 1.0)})
    made.add(
        cs.EqualsCondition(made["momentum"], made["kind"], "sgd"),
        cs.EqualsCondition(made["beta"], made["kind"], "adam"),
    )
    history = trained(
        made,
        lambda config, _: peak(config["momentum"], 0.3) if "momentum" in config else peak(config["beta"], 0.9),
        rounds=10,
    )
    drawn = [ask(PB2Mult(c1=0.0), history, seed=seed)[0].config for seed in range(10)]
    assert {config["kind"] for config in drawn} == {"sgd", "adam"}
    for config in drawn:
        name, best = ("momentum", 0.3) if config["kind"] == "sgd" else ("beta", 0.9)
        assert config.keys() == {"kind", name}
        assert config[name] == pytest.approx(best, abs=0.12)


def test_pb2_mult_keeps_a_label_without_data_and_draws_its_numbers() -> None:
    space = {"h": ["a", "b", "new"], "x": (0.0, 1.0)}
    history = trained(
        space,
        lambda config, _: peak(config["x"], 0.2),
        configs=lambda r: [{"h": "ab"[i % 2], "x": (7 * r + 3 * i) % 10 / 10} for i in range(4)],
    )
    proposals = [ask(PB2Mult(), history, seed=seed)[0] for seed in range(60)]
    new = [proposal for proposal in proposals if proposal.config["h"] == "new"]
    assert len(new) >= 5, "it is tried"
    assert np.std([proposal.config["x"] for proposal in new]) > 0.15, "anywhere"
    assert all(proposal.decision["fallback"] == "nothing was observed with these labels yet" for proposal in new)
    assert not any("fallback" in p.decision for p in proposals if p.config["h"] != "new")


# PB2-Fuse


@pytest.mark.parametrize(("method", "least", "most"), [(PB2Fuse, 0.6, 1.0), (PB2Mix, 0.1, 0.5)])
def test_pb2_fuse_draws_the_good_label_far_more_often_than_chance(
    method: type[PB2Mix], least: float, most: float
) -> None:
    space = {"h": list("abcdef"), "x": (0.0, 1.0)}
    history = trained(space, lambda config, _: peak(config["x"], 0.5) + 2.0 * (config["h"] == "c"), rounds=8)
    drawn = Counter(ask(method(), history, seed=seed)[0].config["h"] for seed in range(50))
    assert least <= drawn["c"] / 50 <= most, drawn


def test_pb2_fuse_tries_every_label_at_a_high_temperature() -> None:
    space = {"h": list("abcd"), "x": (0.0, 1.0)}
    history = trained(space, lambda config, _: 2.0 * (config["h"] == "c"), rounds=8)
    drawn = {ask(PB2Fuse(temperature=1e6), history, seed=seed)[0].config["h"] for seed in range(40)}
    assert drawn == set("abcd")


def test_pb2_fuse_samples_combinations_where_there_are_too_many_to_compare() -> None:
    space = {**{f"h{i}": list("abc") for i in range(5)}, "x": (0.0, 1.0)}
    history = trained(space, lambda config, _: peak(config["x"], 0.5) + (config["h0"] == "c"), rounds=8)
    drawn = [ask(PB2Fuse(), history, seed=seed)[0] for seed in range(10)]
    assert all(proposal.decision.get("fallback") is None for proposal in drawn)
    assert sum(proposal.config["h0"] == "c" for proposal in drawn) >= 6


# PBT

OLD = {"x": 0.5, "lr": 1e-3, "n": 10, "few": 2, "level": "m", "h": "a"}
PBT_SPACE = {
    "x": (0.0, 1.0),
    "lr": cs.Float("lr", (1e-5, 1e-1), log=True),
    "n": (0, 100),
    "few": (1, 8),
    "level": cs.OrdinalHyperparameter("level", ["xs", "s", "m", "l", "xl"]),
    "h": ["a", "b", "c"],
}


def perturbed(config: dict[str, Any], space: Any, count: int = 300, **arguments: float) -> list[dict[str, Any]]:
    method = PBT(**{"resample": 0.0, "resample_label": 0.0} | arguments)  # type: ignore[arg-type]
    history = History(space)
    parent = Observation(0, 0, config, score=1.0)
    rng = np.random.default_rng(0)
    return [method.explore(history.space, history, [], parent, rng) for _ in range(count)]


def test_pbt_multiplies_by_a_factor_and_moves_levels_by_at_least_one() -> None:
    drawn = perturbed(OLD, PBT_SPACE)
    expected = {
        "x": {0.4, 0.6},
        "lr": {0.8e-3, 1.2e-3},
        "n": {8, 12},
        "few": {1, 3},
        "level": {"s", "l"},
        "h": {"a"},
    }
    for name, values in expected.items():
        found = Counter(
            config[name] if isinstance(config[name], int | str) else round(config[name], 9) for config in drawn
        )
        assert found.keys() == values, name
        if len(values) == 2:
            assert within_chance(found.most_common()[0][1], 300, 0.5), "up and down alike"


def test_pbt_stays_within_bounds() -> None:
    edge = {"x": 0.9, "lr": 0.09, "n": 100, "few": 1, "level": "xl", "h": "a"}
    drawn = perturbed(edge, PBT_SPACE)
    assert {round(config["x"], 9) for config in drawn} == {0.72, 1.0}
    assert {round(config["lr"], 9) for config in drawn} == {0.072, 0.1}
    assert {config["n"] for config in drawn} == {80, 100}
    assert {config["few"] for config in drawn} == {1, 2}
    assert {config["level"] for config in drawn} == {"l", "xl"}


def test_pbt_keeps_an_integer_on_a_logarithmic_scale_above_its_bound() -> None:
    """One level below 1 is 0, which has no logarithm."""
    made = {"n": cs.Integer("n", (1, 64), log=True)}
    assert {config["n"] for config in perturbed({"n": 1}, made, 50)} == {1, 2}
    assert {config["n"] for config in perturbed({"n": 64}, made, 50)} == {51, 64}


def test_pbt_moves_an_integer_off_zero() -> None:
    assert {config["n"] for config in perturbed(OLD | {"n": 0}, PBT_SPACE)} == {0, 1}


def test_pbt_draws_numbers_and_labels_anew_as_often_as_it_is_told() -> None:
    drawn = perturbed(OLD, PBT_SPACE, 2000, resample=0.25, resample_label=0.5)
    anew = sum(round(config["x"], 9) not in (0.4, 0.6) for config in drawn)
    assert within_chance(anew, 2000, 0.25)
    labels = Counter(config["h"] for config in drawn)
    assert within_chance(labels["a"], 2000, 0.5 + 0.5 / 3)
    assert within_chance(labels["b"], 2000, 0.5 / 3)
    assert within_chance(labels["c"], 2000, 0.5 / 3)


def test_pbt_takes_other_factors() -> None:
    drawn = perturbed(OLD, PBT_SPACE, 50, factors=(0.5, 2.0))  # type: ignore[arg-type]
    assert {round(config["x"], 9) for config in drawn} == {0.25, 1.0}


def test_pbt_draws_the_children_of_a_new_label_and_perturbs_those_of_a_kept_one() -> None:
    made = cs.ConfigurationSpace({"kind": ["sgd", "adam"], "momentum": (0.0, 1.0), "beta": (0.0, 1.0)})
    made.add(
        cs.EqualsCondition(made["momentum"], made["kind"], "sgd"),
        cs.EqualsCondition(made["beta"], made["kind"], "adam"),
    )
    drawn = perturbed({"kind": "sgd", "momentum": 0.5}, made, 400, resample_label=0.5)
    kept = [config["momentum"] for config in drawn if config["kind"] == "sgd"]
    new = np.array([config["beta"] for config in drawn if config["kind"] == "adam"])
    assert {round(value, 9) for value in kept} == {0.4, 0.6}
    assert within_chance(len(new), 400, 0.25)
    assert (np.histogram(new, bins=5, range=(0, 1))[0] > 5).all(), "spread over the range"


def test_pbt_never_leaves_what_is_legal_by_perturbing() -> None:
    made = cs.ConfigurationSpace({"low": (0.0, 1.0), "high": (0.0, 1.0)})
    made["high"].default_value = 1.0
    made.add(cs.ForbiddenGreaterThanRelation(made["low"], made["high"]))
    drawn = perturbed({"low": 0.5, "high": 0.5}, made)
    assert all(config["low"] <= config["high"] for config in drawn)
    assert any(config["low"] < 0.45 and config["high"] > 0.55 for config in drawn)


# Labels without information


@pytest.mark.parametrize("method", [RandomSearch, PBT, PB2Rand, PB2Mult, PB2Mix, PB2Fuse, CoCaBO])
def test_every_label_is_drawn_with_its_full_probability(method: Any) -> None:
    history = History({"h": list("abc"), "x": (0.0, 1.0)}, rounds=50)
    rng = np.random.default_rng(0)
    drawn = Counter(method().explore(history.space, history, [], None, rng)["h"] for _ in range(1000))
    for label in "abc":
        assert within_chance(drawn[label], 1000, 1 / 3), (label, drawn)


@pytest.mark.parametrize("method", [RandomSearch, PBT, PB2Rand])
def test_labels_that_are_drawn_from_the_space_follow_its_weights(method: Any) -> None:
    history = History({"h": cs.Categorical("h", ["a", "b", "c"], weights=[1, 2, 5])})
    rng = np.random.default_rng(0)
    drawn = Counter(method().explore(history.space, history, [], None, rng)["h"] for _ in range(1000))
    for label, weight in zip("abc", (1, 2, 5), strict=True):
        assert within_chance(drawn[label], 1000, weight / 8), (label, drawn)


# CoCaBO and random search


def test_cocabo_starts_every_interval_afresh_with_a_new_configuration() -> None:
    population = Population(MIXED, CoCaBO(), size=3, rounds=4)
    seen = []
    while not population.done:
        for assignment in population.ask():
            assert assignment.parent is None
            seen.append(assignment.config)
            population.tell(assignment, peak(assignment.config["x"], 0.3))
    assert len({config["x"] for config in seen}) == 12
    assert all(np.isnan(observation.score_before) for observation in population.history)


def test_cocabo_has_no_time_and_the_others_believe_what_is_recent() -> None:
    space, grid = (
        Space({"x": (0.0, 1.0)}),
        [[{"x": (3 * r + i) % 10 / 9} for i in range(3)] for r in range(20)],
    )

    def drifting(early: float, late: float) -> History:
        return trained(
            space,
            lambda config, r: peak(config["x"], early if r < 10 else late),
            rounds=20,
            size=3,
            configs=lambda r: grid[r],
        )

    forth, back = drifting(0.1, 0.9), drifting(0.9, 0.1)
    aware = [ask(PB2Mix(c1=0.0), history)[0].config["x"] for history in (forth, back)]
    timeless = [ask(CoCaBO(c1=0.0), history)[0].config["x"] for history in (forth, back)]
    assert aware == pytest.approx([0.9, 0.1], abs=0.15)
    assert timeless[0] == pytest.approx(timeless[1], abs=0.05)


def test_random_search_keeps_what_it_was_dealt_and_copies_nobody() -> None:
    population = Population(MIXED, RandomSearch(), size=3, rounds=4)
    while not population.done:
        for assignment in population.ask():
            assert assignment.parent == (None if assignment.round == 0 else (assignment.member, assignment.round - 1))
            population.tell(assignment, assignment.config["x"])
    for member in range(3):
        assert len({o.config["x"] for o in population.history if o.member == member}) == 1
