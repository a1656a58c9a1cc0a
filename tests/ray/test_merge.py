"""What is explored and where it begins, when `param_space` and the scheduler's arguments both speak of a name."""

import random
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from ray import tune

from popbandits.errors import SpaceError
from popbandits.ray.domains import Labels, Range, read_bounds, read_mutations
from popbandits.ray.merge import Part, Search, merge
from popbandits.ray.space import draw

LOG = tune.loguniform(1e-4, 1e-1)
NOTHING = object()
LOG_RANGE = Range(1e-4, 1e-1, log=True)


def bounded(bounds: Any, param_space: Mapping[str, Any]) -> Search:
    return merge("hyperparam_bounds", read_bounds(bounds), param_space, partial(draw, param_space, None, 3, 0))


def mutated(mutations: Any, param_space: Mapping[str, Any]) -> Search:
    return merge("hyperparam_mutations", read_mutations(mutations), param_space, partial(draw, param_space, None, 3, 0))


def whole(lower: int, upper: int, **more: Any) -> Range:
    return Range(lower, upper, integer=True, **more)


def check(search: Search, explored: Any, begins: Any, remark: str | None) -> None:
    part = search.parts["x",]
    assert (part.explored, part.begins) == (explored, explored if begins is None else begins)
    assert repr(part.explored) == repr(explored)  # 1 is not 1.0
    assert search.space.names == ("x",)
    said = " ".join(search.remarks)
    assert not said if remark is None else re.search(remark, said), said


@pytest.mark.parametrize(
    ("bounds", "given", "explored", "begins", "remark"),
    [
        # The same, or narrower: the scale is param_space's, and there is nothing to say.
        ([1e-4, 1e-1], LOG, LOG_RANGE, None, None),
        ((1e-3, 1e-2), LOG, Range(1e-3, 1e-2, log=True), None, None),
        ([0, 1], tune.uniform(0, 1), Range(0.0, 1.0), None, None),
        ([1, 4], tune.randint(1, 4), whole(1, 3), None, None),
        ([2, 3], tune.randint(1, 9), whole(2, 3), None, None),
        ([1.5, 3.5], tune.randint(1, 9), whole(2, 3), None, None),
        ([8, 64], tune.lograndint(1, 65), whole(8, 64, log=True), None, None),
        ([0.2, 0.4], tune.quniform(0, 1, 0.1), Range(0.2, 0.4, step=0.1), None, None),
        # Beyond: explored as in Ray, and begun where param_space begins.
        (
            [1e-5, 1.0],
            LOG,
            Range(1e-5, 1.0, log=True),
            LOG_RANGE,
            r"^'x': hyperparam_bounds has \[1e-05, 1\], which reaches beyond what param_space has, the range "
            r"\[0.0001, 0.1\] on a log scale; trials begin in both",
        ),
        ([5, 20], tune.randint(1, 11), whole(5, 20), whole(5, 10), r"has \[5, 20\], which reaches beyond"),
        (
            [0.5, 1.5],
            tune.quniform(0, 1, 0.25),
            Range(0.5, 1.5, step=0.25),
            Labels((0.5, 0.75, 1.0), ordered=True),
            "reaches beyond",
        ),
        # A log scale has no zero.
        ([0, 1e-2], LOG, Range(1e-4, 1e-2, log=True), None, r"a log range is above 0, so the range \[0.0001, 0.01\]"),
        # Choices among numbers: every value was explored by Ray's PB2, so it is here.
        (
            [16, 128],
            tune.choice([16, 64]),
            whole(16, 128),
            None,
            r"has one of 16, 64; trials begin with those, and all of the range \[16, 128\] is explored, as in Ray",
        ),
        # Distributions in the place of bounds.
        (tune.choice(["a", "b"]), tune.choice(["a", "b", "c"]), Labels(("a", "b")), None, None),
        (tune.uniform(1e-4, 1e-1), LOG, LOG_RANGE, None, "the log scale is kept"),
    ],
)
def test_bounds_are_explored_on_the_scale_of_param_space(
    bounds: Any, given: Any, explored: Any, begins: Any, remark: str | None
) -> None:
    check(bounded({"x": bounds}, {"x": given}), explored, begins, remark)


@pytest.mark.parametrize(
    ("bounds", "given", "explored", "first", "remark"),
    [
        ([1e-4, 1e-1], 1e-2, Range(1e-4, 1e-1), {0: 1e-2}, None),
        ([8, 64], 32, whole(8, 64), {0: 32}, None),
        ([0.1, 0.5], 1, Range(0.1, 0.5), {}, r"has \[0.1, 0.5\], and param_space has 1, which is outside"),
        ([8, 64], tune.sample_from(lambda spec: 9), whole(8, 64), {0: 9, 1: 9, 2: 9}, None),
        ([8, 64], tune.grid_search([8.0, 16.0]), Range(8.0, 64.0), {0: 8.0, 1: 16.0, 2: 8.0}, None),
        ([8, 12], tune.grid_search([8, 16]), whole(8, 12), {0: 8, 2: 8}, "param_space draws 16, which is outside"),
        ([-9, 9], tune.randn(0, 1), Range(-9.0, 9.0), None, None),
        # A function or a grid may draw on a log scale.
        (
            [1e-5, 1e-1],
            tune.grid_search([1e-5, 1e-4, 1e-3]),
            Range(1e-5, 1e-1, log=True),
            {0: 1e-5, 1: 1e-4, 2: 1e-3},
            r"is spread as on a log scale, 1e-05, 0.0001, 0.001; the range \[1e-05, 0.1\] on a log scale is explored",
        ),
        (
            [1e-5, 1e-1],
            tune.grid_search([0.01, 0.02, 0.09]),
            Range(1e-5, 1e-1),
            {0: 0.01, 1: 0.02, 2: 0.09},
            None,
        ),
        ([1e-5, 1e-1], 1e-5, Range(1e-5, 1e-1), {0: 1e-5}, None),
        ([16, 128], tune.choice([64]), whole(16, 128), {0: 64, 1: 64, 2: 64}, "as in Ray"),
    ],
)
def test_trials_begin_with_what_param_space_holds_or_draws(
    bounds: Any, given: Any, explored: Range, first: Any, remark: str | None
) -> None:
    search = bounded({"x": bounds}, {"x": given})
    check(search, explored, None, remark)
    values = search.parts["x",].first
    assert values == first if first is not None else len(set(values.values())) == 3
    assert (search.begins is None) == (not values)


def test_a_bound_on_a_name_that_is_not_there_is_added_as_in_ray() -> None:
    search = bounded({"x": [0, 1], "net": {"depth": [1, 4]}}, {"net": {"width": 64}})
    assert search.parts == {(name,): Part(r, r) for name, r in [("x", Range(0.0, 1.0))]} | {
        ("net", "depth"): Part(Range(1.0, 4.0), Range(1.0, 4.0))
    }
    assert (search.remarks, search.begins) == ([], None)
    [remark] = bounded({"learning_rat": [0, 1]}, {"learning_rate": 0.5}).remarks
    assert remark.startswith("'learning_rat': hyperparam_bounds has [0, 1], and param_space has no such name, but 'lea")


def test_what_bounds_do_not_name_is_tuned_with_its_own_scale_and_said() -> None:
    given = {"lr": tune.loguniform(1e-5, 1e-1), "net": {"act": tune.choice(["relu", "tanh"]), "width": 64}}
    search = bounded({"lr": [1e-5, 1e-1]}, given)
    assert search.parts["net", "act"].explored == Labels(("relu", "tanh"))
    assert search.parts["lr",].explored == Range(1e-5, 1e-1, log=True)
    [remark] = search.remarks
    assert remark.startswith("'net.act': not in hyperparam_bounds, and tuned too, because param_space leaves it open")


@pytest.mark.parametrize(
    ("mutation", "given", "explored", "begins", "remark"),
    [
        ([16, 32, 64], NOTHING, Labels((16, 32, 64), ordered=True), None, None),
        ((0.9, 0.5), NOTHING, Labels((0.9, 0.5), ordered=True), None, None),
        ([3, 1, 2], NOTHING, Labels((3, 1, 2)), None, None),
        (["a", "b"], tune.choice(["b", "a"]), Labels(("a", "b")), None, None),
        (["a", "b"], tune.choice(["b", "c"]), Labels(("a", "b")), Labels(("b",)), "trials begin with what is in both"),
        ([True, False], False, Labels((True, False)), None, None),
        ([None, "cosine"], None, Labels((None, "cosine")), None, None),
        ([1, 2], True, Labels((1, 2), ordered=True), None, "param_space has True, which is outside"),
        ([0.8, 0.9], tune.uniform(0, 1), Labels((0.8, 0.9), ordered=True), None, "begin with the listed values"),
        (tune.loguniform(1e-4, 1e-1), NOTHING, LOG_RANGE, None, None),
        (tune.uniform(1e-4, 1.0), tune.uniform(1e-3, 1.0), Range(1e-4, 1.0), Range(1e-3, 1.0), "reaches beyond"),
        (tune.uniform(16, 256), 32, whole(16, 256), None, None),
        (tune.uniform(0, 1), tune.choice([0.25, 0.5]), Range(0.0, 1.0), None, "trials begin with those"),
        (
            lambda: random.random(),
            LOG,
            LOG_RANGE,
            None,
            "the function <lambda>, whose range cannot be read; param_space",
        ),
    ],
)
def test_mutations_are_explored_in_the_same_way(
    mutation: Any, given: Any, explored: Any, begins: Any, remark: str | None
) -> None:
    check(mutated({"x": mutation}, {} if given is NOTHING else {"x": given}), explored, begins, remark)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: bounded({"x": [1.0, 2.0]}, {"x": LOG}),
            r"'x': hyperparam_bounds has \[1, 2\], and param_space has the ",
        ),
        (
            lambda: bounded({"x": [0, 1]}, {"x": "adam"}),
            r"has \[0, 1\], but param_space has 'adam', which is no number",
        ),
        (lambda: bounded({"x": [0, 1]}, {"x": True}), "has True, which is no number"),
        (
            lambda: bounded({"x": [0, 1]}, {"x": tune.choice(["a", "b"])}),
            "has one of 'a', 'b': they have nothing in comm",
        ),
        (
            lambda: bounded({"x": [0, 1]}, {"x": tune.sample_from(lambda _: "a")}),
            "param_space draws 'a', which is no nu",
        ),
        (
            lambda: bounded({"x": [0, 1]}, {"x": {"y": 1}}),
            r"'x': a parameter cannot also be a group.*'x.y' in param_sp",
        ),
        (lambda: bounded({"x": {"y": [0, 1]}}, {"x": 3}), r"'x.y': a parameter cannot also be a group"),
        (lambda: bounded({"x": [1, 1]}, {}), r"'x': the lower bound of hyperparam_bounds must be below.*got \[1, 1\]"),
        (lambda: bounded({"x": ["adam", "sgd"]}, {}), r"'x': hyperparam_bounds holds ranges.*tune.choice"),
        (lambda: bounded({"n": {"x": [1, 2, 3]}}, {}), r"'n.x': hyperparam_bounds holds ranges"),
        (lambda: bounded({}, {}), "hyperparam_bounds must be a dict of ranges, got {}"),
        (lambda: mutated({}, {}), "hyperparam_mutations must be a dict of lists and distributions, got {}"),
        (
            lambda: mutated({"x": 3}, {}),
            "'x': hyperparam_mutations holds lists of values and Tune's distributions, got 3",
        ),
        (
            lambda: mutated({"x": ["a"]}, {"x": tune.choice(["b"])}),
            "'x': hyperparam_mutations has one of 'a', but param",
        ),
        (
            lambda: mutated({"x": tune.sample_from(random.random)}, {}),
            "'x': hyperparam_mutations takes no tune.sample_f",
        ),
        (
            lambda: mutated({"x": lambda: random.random(), "n": {"y": random.random}}, {"x": 0.5}),
            r"^'x', 'n.y': the range of a function cannot be read, got the function <lambda>.*write tune.uniform",
        ),
    ],
)
def test_what_contradicts_is_refused_with_both_values(make: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        make()
