"""Networks of several shapes in one program: each equals one of its own shape, and a change of shape has its price."""

import math
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from popbandits.engines.work import differences
from popbandits.errors import ArgumentError
from popbandits.testing import check_batched
from popbandits_experiments.batched.random import Streams, derive_keys, keys_of
from popbandits_experiments.images.classifiers import CHUNKS
from popbandits_experiments.images.sets import Images, Task, split
from popbandits_experiments.images.shaped import (
    USUAL,
    Change,
    Settings,
    Shaped,
    ShapedClassifiers,
    rest,
    with_architecture,
)

TASK = Task(training=64, validation=200, wrong=0.2)
EPOCHS, DISTILLED = 4, 2
LARGEST = (64, 3)
REST: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.01, "label_smoothing": 0.1, "dropout": 0.3}
SMALL = {**REST, "width": 16, "depth": 2}
LARGE = {**REST, "width": 64, "depth": 3, "lr": 0.003}
FLAT = {**REST, "width": 8, "depth": 1}
CONFIGS = [SMALL, LARGE, FLAT]
Weights = list[Tensor]


@pytest.fixture(scope="module")
def images() -> Images:
    return Images.load("digits")


def make(images: Images, seeds: list[int], change: Change = "distil", epochs: int = EPOCHS) -> ShapedClassifiers:
    return ShapedClassifiers(seeds, images, Settings(TASK, epochs, change, min(epochs, DISTILLED), LARGEST))


def narrowed(agent: ShapedClassifiers, member: int, width: int, depth: int) -> Weights:
    """Return the weights that a network of this shape has: the others are cut off."""
    whole = [each[member].detach().clone() for each in agent.weights]
    hidden = [
        part
        for layer in range(1, depth)
        for part in (whole[2 * layer][:width, :width], whole[2 * layer + 1][:, :width])
    ]
    return [whole[0][:, :width], whole[1][:, :width], *hidden, whole[-2][:width], whole[-1]]


def plain(weights: Weights, rows: Tensor, kept: Tensor | None = None) -> Tensor:
    """Compute the logits of one network by PyTorch's own layers."""
    hidden = functional.linear(rows, weights[0].T, weights[1][0]).tanh()
    for matrix, bias in zip(weights[2:-2:2], weights[3:-2:2], strict=True):
        hidden = hidden + functional.linear(hidden, matrix.T, bias[0]).tanh()
    return functional.linear(hidden if kept is None else hidden * kept, weights[-2].T, weights[-1][0])


def plain_interval(
    images: Images, seed: int, interval: int, config: dict[str, Any], first: Weights, parent: Weights | None = None
) -> Weights:
    """Train one network of its own shape for an interval, with a new optimizer; at first from its parent."""
    parameters = [each.clone().requires_grad_() for each in first]
    optimizer = torch.optim.Adam(parameters, config["lr"], (0.9, 0.999), 1e-5, config["weight_decay"])
    parts = split(images, TASK, [0])
    streams = Streams(derive_keys(keys_of([seed], torch.device("cpu")), torch.tensor([interval])))
    for epoch in range(EPOCHS):
        order = streams.uniform(64)[0].argsort(stable=True)
        drops = streams.uniform(64, LARGEST[0])[0, :, : first[1].shape[1]]
        for batch in torch.arange(64).chunk(CHUNKS):
            seen = images.pixels[parts.training[0, order[batch]]].flatten(1) * 2 - 1
            kept = (drops[batch] >= config["dropout"]) / (1 - config["dropout"])
            logits, labels = plain(parameters, seen, kept), parts.labels[0, order[batch]]
            if parent is not None and epoch < DISTILLED:
                loss = functional.cross_entropy(logits, plain(parent, seen).softmax(-1))
            else:
                loss = functional.cross_entropy(logits, labels, label_smoothing=config["label_smoothing"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return [each.detach() for each in parameters]


def assert_same(found: Weights, expected: Weights) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


# Shapes


def test_a_masked_network_computes_what_a_narrower_one_does(images: Images) -> None:
    shapes = list(product((8, 16, 64), (1, 2, 3)))
    agent = make(images, [3] * len(shapes), epochs=1)
    agent.train([{**REST, "width": width, "depth": depth} for width, depth in shapes])
    rows = images.pixels[:50].flatten(1) * 2 - 1
    with torch.no_grad():
        widths, depths = torch.tensor(shapes).T
        found = agent.network(agent.weights, rows.expand(len(shapes), -1, -1), widths, depths)
    for member, (width, depth) in enumerate(shapes):
        own = narrowed(agent, member, width, depth)
        assert [tuple(each.shape) for each in own] == Shaped(64, width, depth).shapes
        torch.testing.assert_close(found[member], plain(own, rows), rtol=1e-4, atol=1e-5)


def first_weights(images: Images, seeds: list[int], config: dict[str, Any]) -> list[Weights]:
    """Return what members of this shape begin with: an interval whose steps have no length."""
    agent = make(images, seeds, epochs=1)
    agent.train([{**config, "lr": 0.0}] * len(seeds))
    return [narrowed(agent, member, config["width"], config["depth"]) for member in range(len(seeds))]


@pytest.mark.parametrize("member", range(3))
def test_an_interval_of_a_masked_network_equals_that_of_a_narrower_one(images: Images, member: int) -> None:
    agent, config = make(images, [5, 6, 7]), CONFIGS[member]
    (outcome,) = agent.train(CONFIGS)[member : member + 1]
    (first,) = first_weights(images, [5 + member], config)
    found = narrowed(agent, member, config["width"], config["depth"])
    assert (found[0] - first[0]).abs().max() > 0.01
    assert_same(found, plain_interval(images, 5 + member, 0, config, first))
    rows = split(images, TASK, [0]).validation[0]
    right = plain(found, images.pixels[rows].flatten(1) * 2 - 1).argmax(1) == images.labels[rows]
    assert outcome.score == pytest.approx(100 * right.double().mean().item(), abs=1e-4)


@pytest.mark.parametrize("config", CONFIGS, ids=["small", "large", "flat"])
def test_first_weights_have_the_variance_of_their_own_shape(images: Images, config: dict[str, Any]) -> None:
    drawn = first_weights(images, list(range(12)), config)
    inputs = [64, *[config["width"]] * config["depth"]]
    for layer, fan_in in enumerate(inputs):
        values = torch.stack([weights[2 * layer] for weights in drawn])
        assert values.std() == pytest.approx(fan_in**-0.5, rel=0.1)
        assert not any(weights[2 * layer + 1].any() for weights in drawn)


def test_without_an_architecture_in_the_configuration_it_is_the_usual_one(images: Images) -> None:
    agent, named = make(images, [5]), make(images, [5])
    assert agent.train([REST]) == named.train([{**REST, **USUAL}])
    assert agent.applied()[0] == named.applied()[0]
    assert {name: agent.applied()[0][name] for name in USUAL} == USUAL


# A change of architecture


def shape(agent: ShapedClassifiers, member: int) -> tuple[int, int]:
    applied = agent.applied()[member]
    return applied["width"], applied["depth"]


def test_a_child_of_another_architecture_learns_from_its_parent_and_then_from_the_labels(images: Images) -> None:
    agent = make(images, [5, 6])
    agent.train([SMALL, FLAT])
    parent = narrowed(agent, 0, 16, 2)
    unlike = make(images, [5, 6])  # The same with steps of no length: the child's first weights.
    unlike.train([SMALL, FLAT])
    unlike.train([{**LARGE, "lr": 0.0}, FLAT])
    agent.train([LARGE, FLAT])
    expected = plain_interval(images, 5, 1, LARGE, narrowed(unlike, 0, 64, 3), parent)
    assert_same(narrowed(agent, 0, 64, 3), expected)
    alone = make(images, [6])
    for _ in range(2):
        alone.train([FLAT])
    assert_same(narrowed(agent, 1, 8, 1), narrowed(alone, 0, 8, 1))


def test_distillation_is_paid_by_the_interval(images: Images) -> None:
    agent = make(images, [5, 6])
    assert [outcome.metrics["distilled_steps"] for outcome in agent.train([SMALL, FLAT])] == [0, 0]
    changed, same = agent.train([LARGE, FLAT])
    assert changed.steps == same.steps == EPOCHS * 64
    assert (changed.metrics["distilled_steps"], same.metrics["distilled_steps"]) == (DISTILLED * 64, 0)
    steps = agent.optimizer.steps.flatten().tolist()
    assert steps == [EPOCHS * CHUNKS, 2 * EPOCHS * CHUNKS]  # As many in each interval; a change begins anew.


def test_a_child_that_learns_from_a_good_parent_knows_more_than_one_that_begins_anew(images: Images) -> None:
    def scores(change: Change) -> tuple[float, float]:
        task = Task(training=400, validation=600, wrong=0.2)
        agent = ShapedClassifiers([5], images, Settings(task, 4, change, 2, LARGEST))
        config = {**REST, "width": 32, "depth": 1, "lr": 3e-3}
        before = [agent.train([config])[0].score for _ in range(4)][-1]
        return before, agent.train([{**config, "width": 64, "lr": 1e-3}])[0].score

    before, distilled = scores("distil")
    same, restarted = scores("restart")
    assert before == same > 80
    assert distilled > restarted


def test_a_restart_loses_everything_that_was_learnt(images: Images) -> None:
    agent = make(images, [5, 5], "restart")
    agent.train([SMALL, LARGE])
    agent.assigned([(0, 1), (0, 1)])
    agent.train([FLAT, FLAT])
    assert shape(agent, 0) == shape(agent, 1) == (8, 1)
    assert_same(narrowed(agent, 0, 8, 1), narrowed(agent, 1, 8, 1))  # Nothing of what they were is left.
    assert agent.optimizer.steps.flatten().tolist() == [EPOCHS * CHUNKS] * 2


def test_whoever_inherits_keeps_the_architecture_of_its_weights(images: Images) -> None:
    agent, unchanged = make(images, [5], "inherit"), make(images, [5], "inherit")
    agent.train([SMALL])
    unchanged.train([SMALL])
    asked = {**LARGE, "lr": SMALL["lr"]}
    assert agent.train([asked]) == unchanged.train([SMALL])
    assert shape(agent, 0) == (16, 2)


def test_who_is_born_again_has_the_usual_architecture_and_learns_from_its_parent(images: Images) -> None:
    agent = make(images, [5], "again")
    agent.train([SMALL])
    assert shape(agent, 0) == (64, 1)
    parent = narrowed(agent, 0, 64, 1)
    assert_same(parent, plain_interval(images, 5, 0, SMALL, first_weights(images, [5], {**SMALL, **USUAL})[0]))
    assert agent.train([LARGE])[0].metrics["distilled_steps"] == DISTILLED * 64
    assert shape(agent, 0) == (64, 1)
    assert not torch.allclose(narrowed(agent, 0, 64, 1)[0], parent[0], atol=0.1)
    assert agent.train([LARGE])[0].metrics["distilled_steps"] == 0


def test_a_copy_takes_the_architecture_with_the_weights_and_a_reset_forgets_it(images: Images) -> None:
    agent = make(images, [5, 6, 7])
    agent.train(CONFIGS)
    agent.copy([1, 1, 2])
    agent.reset(2, 9)
    outcomes = agent.train([LARGE, LARGE, SMALL])
    assert [outcome.metrics["distilled_steps"] for outcome in outcomes] == [0, 0, 0]
    assert agent.optimizer.steps.flatten().tolist() == [2 * EPOCHS * CHUNKS] * 2 + [EPOCHS * CHUNKS]


def test_children_of_one_parent_begin_with_other_weights_if_they_are_told_apart(images: Images) -> None:
    agent = make(images, [5, 6], "restart")
    agent.train([SMALL, SMALL])
    agent.copy([0, 0])
    agent.assigned([(0, 1), (1, 1)])
    agent.train([LARGE, LARGE])
    assert not torch.allclose(agent.flat[0], agent.flat[1], atol=0.1)


# Members and their company


@pytest.mark.parametrize("member", range(3))
def test_a_member_trained_alone_equals_the_same_member_in_company(images: Images, member: int) -> None:
    together, alone = make(images, [5, 6, 7]), make(images, [5 + member])
    for interval, configs in enumerate([CONFIGS, [LARGE, LARGE, SMALL]]):
        labels = [(i, interval) for i in range(3)]
        together.assigned(labels)
        alone.assigned(labels[member : member + 1])
        in_company, by_itself = together.train(configs)[member], alone.train(configs[member : member + 1])[0]
        assert in_company.score == pytest.approx(by_itself.score, abs=1.0)
        assert in_company.metrics == by_itself.metrics
    torch.testing.assert_close(together.flat[member], alone.flat[0], rtol=1e-3, atol=1e-4)


def test_a_member_that_diverges_fails_alone(images: Images) -> None:
    sound, spoilt = make(images, [5, 6, 7]), make(images, [5, 6, 7])
    for agent in (sound, spoilt):
        agent.train(CONFIGS)
    with torch.no_grad():
        spoilt.flat[1] = math.nan
    expected, found = sound.train(CONFIGS), spoilt.train(CONFIGS)
    assert math.isnan(found[1].score)
    assert (found[0], found[2]) == (expected[0], expected[2])
    # A change of architecture begins with new weights, but a parent that failed has nothing to teach.
    assert math.isfinite(spoilt.train([SMALL, SMALL, FLAT])[1].score)


@pytest.mark.slow  # Beside the same test of augmented classifiers.
def test_the_agents_keep_the_contract_of_batched_agents(images: Images) -> None:
    settings = Settings(TASK, 2, "distil", 1, (128, 4))
    make_agents = partial(ShapedClassifiers, images=images, settings=settings)
    report = check_batched(make_agents, with_architecture(), each=False)
    assert report.ok, str(report)


def test_what_is_sampled_can_be_trained_with_and_is_applied(images: Images) -> None:
    space = with_architecture()
    space.seed(0)
    configs = [dict(config) for config in space.sample_configuration(6)]
    agent = ShapedClassifiers(range(6), images, Settings(TASK, 1, distilled=0))
    agent.train(configs)
    for config, applied in zip(configs, agent.applied(), strict=True):
        assert differences(config, applied) == []
    assert set(with_architecture()) - set(rest()) == {"width", "depth"}


@pytest.mark.parametrize(
    ("change", "message"),
    [({"width": 128}, "width must be from 1 to 64, got 128"), ({"depth": 0}, "depth must be from 1 to 3, got 0")],
)
def test_an_architecture_beyond_the_largest_is_refused(images: Images, change: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make(images, [0]).train([{**SMALL, **change}])


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ArgumentError, match="distilled must be from 0 to epochs, 3, got 4"):
        Settings(epochs=3, distilled=4)
    with pytest.raises(ArgumentError, match="change must be one of restart, distil, again, inherit, got 'grow'"):
        Settings(change="grow")  # type: ignore[arg-type]
