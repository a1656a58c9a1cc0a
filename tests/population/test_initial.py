"""The first configurations: spread over the space, labels balanced, whatever the space."""

from typing import Any

import ConfigSpace as cs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from popbandits.explorers import PBT
from popbandits.population import Population
from popbandits.population.initial import initial_points
from popbandits.space import Points, Prior, Space
from popbandits_experiments.contracts import spaces

SPACES = spaces()


def points(space: Any, size: int, seed: int = 0) -> Points:
    return initial_points(Space(space), size, np.random.default_rng(seed))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**30))
def test_each_label_gets_its_share_of_members_to_within_one(size: int, seed: int) -> None:
    drawn = points({"h": list("abc"), "g": list("abcdefg"), "x": (0.0, 1.0)}, size, seed)
    for column, labels in enumerate((7, 3)):  # g, then h
        counts = np.bincount(drawn.h[:, column], minlength=labels)
        assert counts.max() - counts.min() <= 1


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**30))
def test_each_slice_of_a_range_has_one_member(size: int, seed: int) -> None:
    drawn = points({"a": (0.0, 1.0), "b": cs.Float("b", (1e-6, 1.0), log=True), "c": (-5.0, 5.0)}, size, seed)
    for column in drawn.x.T:
        assert sorted(np.floor(column * size).astype(int)) == list(range(size))


def test_integers_and_ordinals_are_balanced_too() -> None:
    drawn = points({"n": (1, 4), "level": cs.OrdinalHyperparameter("level", ["s", "m", "l"])}, 12)
    for column in drawn.x.T:
        values, counts = np.unique(column, return_counts=True)
        assert len(set(counts)) == 1
        assert len(values) * counts[0] == 12


def test_weighted_labels_get_their_weight() -> None:
    drawn = points({"h": cs.Categorical("h", ["a", "b", "c"], weights=[1, 2, 5])}, 16)
    assert np.bincount(drawn.h[:, 0]).tolist() == [2, 4, 10]


@pytest.mark.parametrize("seed", range(5))
def test_conditional_children_are_spread_among_the_members_that_have_them(seed: int) -> None:
    made = cs.ConfigurationSpace({"kind": ["a", "b"], "x": (0.0, 1.0), "sub": ["p", "q"], "deep": (0.0, 1.0)})
    made.add(
        cs.EqualsCondition(made["x"], made["kind"], "a"),
        cs.EqualsCondition(made["sub"], made["kind"], "a"),
        cs.EqualsCondition(made["deep"], made["sub"], "p"),
    )
    space = Space(made)
    configs = space.decode(points(space, 20, seed))  # no power of two, where the sequence is even by itself
    having = [config for config in configs if config["kind"] == "a"]
    assert len(having) == 10
    assert sorted(int(config["x"] * 10) for config in having) == list(range(10))
    deep = [config["deep"] for config in having if config["sub"] == "p"]
    assert sorted(int(value * 5) for value in deep) == list(range(5))


def test_several_numbers_fill_the_space_and_not_its_diagonal() -> None:
    drawn = points({"a": (0.0, 1.0), "b": (0.0, 1.0)}, 64)
    cells = {(int(a * 4), int(b * 4)) for a, b in drawn.x}
    assert len(cells) == 16, "random points leave a cell empty three times in ten"
    assert abs(np.corrcoef(drawn.x.T)[0, 1]) < 0.1


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("size", [1, 5, 32])
def test_the_first_configurations_are_legal_on_every_space(name: str, size: int) -> None:
    space = SPACES[name]
    drawn = points(space, size)
    assert len(drawn) == size
    assert space.legal(drawn).all()
    for config in space.decode(drawn):
        space.check(config)


def test_they_depend_on_the_generator_alone() -> None:
    one, same, other = (points(SPACES["nested conditions"], 8, seed) for seed in (1, 1, 2))
    assert one.x.tobytes() == same.x.tobytes()
    assert one.h.tobytes() == same.h.tobytes()
    assert one.x.tobytes() != other.x.tobytes()


@pytest.mark.parametrize("known", [None, 0.3])
def test_forbidden_points_are_drawn_again_from_the_same_distribution(known: float | None) -> None:
    made = cs.ConfigurationSpace({"a": (0.0, 1.0), "b": (0.0, 1.0), "h": ["y", "x"]})
    made.add(cs.ForbiddenEqualsClause(made["h"], "x"))
    space = Space(made)
    around = None if known is None else space.encode([{"a": known, "b": known, "h": "y"}])
    drawn = initial_points(space.with_prior(Prior(20.0, around)), 500, np.random.default_rng(0))
    assert space.legal(drawn).all()
    assert np.abs(drawn.x - (0.5 if known is None else known)).max() < 0.4  # Half of them were forbidden.


def test_a_population_begins_with_them() -> None:
    assigned = Population({"h": list("abcd"), "x": (0.0, 1.0)}, PBT(), size=8, seed=3).ask()
    assert sorted(a.config["h"] for a in assigned) == list("aabbccdd")
    assert sorted(int(a.config["x"] * 8) for a in assigned) == list(range(8))
