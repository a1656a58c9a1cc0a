"""Classifiers with augmentation: training against plain PyTorch, members apart from one another."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from ConfigSpace import Configuration
from torch import Tensor
from torch.nn import functional

from popbandits.engines.work import differences
from popbandits.errors import ArgumentError
from popbandits.testing import check_batched
from popbandits_experiments.batched.random import Streams, derive_keys, keys_of
from popbandits_experiments.images.augmented import FIXED, AugmentedClassifiers, middle, probability, space
from popbandits_experiments.images.operations import FILLS, LARGEST, OPERATIONS, Draws, amounts, augment
from popbandits_experiments.images.sets import Images, Task, split

SMALL = Task(training=64, validation=200)
EPOCHS = 2
NONE = dict(space().get_default_configuration())
CONFIGS: list[dict[str, Any]] = [
    NONE,
    {**middle(), "most": len(OPERATIONS), "fill": "noise"},
    {**NONE, "rotate_p": 1.0, "cutout_p": 0.7, "cutout_m": 1.0, "fill": "grey"},
]
SPLITS = [4, 5, 4]


@pytest.fixture(scope="module")
def images() -> Images:
    return Images.load("digits")


def make(images: Images, seeds: list[int], splits: list[int] | None = None) -> AugmentedClassifiers:
    return AugmentedClassifiers(seeds, images, SMALL, EPOCHS, splits=splits)


def weights(agent: AugmentedClassifiers, member: int) -> Tensor:
    return agent.flat[member].detach().clone()


def plain_training(seed: int, split_seed: int, config: dict[str, Any], first: list[Tensor], images: Images) -> Tensor:
    """Train one member with PyTorch's own layers and optimizer for two intervals."""
    parameters = [each.clone().requires_grad_() for each in first]
    into, into_bias, out, out_bias = parameters
    optimizer = torch.optim.Adam(parameters, FIXED["lr"], (0.9, 0.999), 1e-5, FIXED["weight_decay"])
    parts = split(images, SMALL, [split_seed])
    key, draws = keys_of([seed], torch.device("cpu")), Draws.zeros(1, 64, images.side, torch.device("cpu"))
    chances = torch.tensor([[config[f"{one}_p"] for one in OPERATIONS]])
    largest = torch.tensor([[LARGEST[one] * config[f"{one}_m"] for one in OPERATIONS]])
    for interval in range(2):
        streams = Streams(derive_keys(key, torch.tensor([interval])))
        for _ in range(EPOCHS):
            order = streams.uniform(64)[0].argsort(stable=True)
            draws.renew(streams)
            amount = amounts(draws, chances, largest, torch.tensor([config["most"]]))
            seen = images.pixels[parts.training[0, order]][None]
            shown = augment(seen, amount, draws, torch.tensor([FILLS.index(config["fill"])]))[0].flatten(1) * 2 - 1
            for batch in torch.arange(64).chunk(16):
                hidden = functional.linear(shown[batch], into[0].T, into_bias[0, 0]).tanh()
                optimizer.zero_grad()
                logits = functional.linear(hidden, out[0].T, out_bias[0, 0])
                functional.cross_entropy(logits, parts.labels[0, order[batch]]).backward()
                optimizer.step()
    return torch.cat([each.detach().flatten() for each in parameters])


@pytest.mark.parametrize("member", range(3))
def test_two_intervals_of_a_member_equal_those_of_one_plain_model(images: Images, member: int) -> None:
    agent = make(images, [5, 6, 7], SPLITS)
    first = [each[member : member + 1].detach().clone() for each in agent.weights]
    before = weights(agent, member)
    for _ in range(2):
        agent.train(CONFIGS)
    expected = plain_training(5 + member, SPLITS[member], CONFIGS[member], first, images)
    assert (weights(agent, member) - before).abs().max() > 0.01
    torch.testing.assert_close(weights(agent, member), expected, rtol=1e-4, atol=1e-5)


def test_scores_are_accuracies_on_the_images_of_the_members_own_split(images: Images) -> None:
    agent = make(images, [5, 6, 7], SPLITS)
    outcomes = agent.train(CONFIGS)
    tested = agent.evaluate([2, 0]).mean(1).tolist()
    for member, outcome in enumerate(outcomes):
        into, into_bias, out, out_bias = (each[member].detach() for each in agent.weights)
        parts = split(images, SMALL, [SPLITS[member]])

        def accuracy(rows: Tensor, into=into, into_bias=into_bias, out=out, out_bias=out_bias) -> float:
            pixels = images.pixels[rows[0]].flatten(1) * 2 - 1
            found = ((pixels @ into + into_bias).tanh() @ out + out_bias).argmax(1)
            return 100 * (found == images.labels[rows[0]]).double().mean().item()

        assert outcome.score == pytest.approx(accuracy(parts.validation), abs=1e-4)
        assert outcome.steps == EPOCHS * 64
        if member != 1:
            assert tested[0 if member == 2 else 1] == pytest.approx(accuracy(parts.test), abs=1e-4)


def test_what_is_held_out_changes_nothing_that_is_learnt(images: Images) -> None:
    rows = split(images, SMALL, [4])

    def trained(*spoilt: Tensor) -> tuple[Tensor, list[Any], list[float]]:
        pixels = images.pixels.clone()
        for each in spoilt:
            pixels[each[0]] = pixels[each[0]].flip(0)
        agent = make(Images(pixels, images.labels), [5, 6, 7], [4, 4, 4])
        outcomes = agent.train(CONFIGS)
        return agent.flat.detach(), outcomes, agent.evaluate(range(3)).mean(1).tolist()

    learnt, scores, finals = trained()
    for part, same_score, same_final in ((rows.validation, False, True), (rows.test, True, False)):
        other_learnt, other_scores, other_finals = trained(part)
        assert torch.equal(other_learnt, learnt)
        assert (other_scores == scores) is same_score
        assert (other_finals == finals) is same_final


@pytest.mark.parametrize("member", range(3))
def test_a_member_trained_alone_equals_the_same_member_in_company(images: Images, member: int) -> None:
    together = make(images, [5, 6, 7], SPLITS)
    alone = make(images, [5 + member], SPLITS[member : member + 1])
    for interval in range(2):
        labels = [(i, interval) for i in range(3)]
        together.assigned(labels)
        alone.assigned(labels[member : member + 1])
        in_company, by_itself = together.train(CONFIGS)[member], alone.train(CONFIGS[member : member + 1])[0]
        assert in_company.score == by_itself.score
    torch.testing.assert_close(weights(together, member), weights(alone, 0), rtol=1e-5, atol=1e-6)


def test_a_member_that_diverges_fails_alone(images: Images) -> None:
    sound, spoilt = make(images, [5, 6, 7]), make(images, [5, 6, 7])
    with torch.no_grad():
        spoilt.flat[1, 0] = math.nan
    expected, found = sound.train(CONFIGS), spoilt.train(CONFIGS)
    assert math.isnan(found[1].score)
    assert bool(spoilt.evaluate([1]).isnan().all())
    assert (found[0], found[2]) == (expected[0], expected[2])


def test_the_agents_keep_the_contract_of_batched_agents(images: Images) -> None:
    report = check_batched(partial(AugmentedClassifiers, images=images, task=SMALL, epochs=1), space(), each=False)
    assert report.ok, str(report)


def test_what_is_sampled_can_be_trained_with_and_is_applied(images: Images) -> None:
    drawn = space()
    drawn.seed(0)
    configs = [dict(config) for config in drawn.sample_configuration(10)]
    agent = make(images, list(range(10)))
    agent.train(configs)
    for config, applied in zip(configs, agent.applied(), strict=True):
        assert differences(config, applied) == []
        assert config.keys() == applied.keys()


def test_the_probability_and_the_magnitude_of_every_operation_matter(images: Images) -> None:
    base = {**NONE, **{name: 0.5 for name in NONE if name.endswith(("_p", "_m"))}, "most": len(OPERATIONS)}
    names = [name for name in NONE if name.endswith(("_p", "_m"))]
    configs = [base, *({**base, name: 0.9} for name in names), {**base, "most": 1}, {**base, "fill": "grey"}]
    agent = make(images, [5] * len(configs))
    agent.train(configs)
    for name, flat in zip([*names, "most", "fill"], agent.flat.detach()[1:], strict=True):
        assert (flat - agent.flat.detach()[0]).abs().max() > 1e-4, name
    assert len(names) == 2 * len(OPERATIONS) == 18


@pytest.mark.parametrize(
    ("change", "message"),
    [({"most": 4}, r"most must be one of \(1, 2, 3, 9\), got 4"), ({"fill": "red"}, "fill must be one of .*'red'")],
)
def test_a_value_outside_of_the_choices_is_refused(images: Images, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make(images, [0]).train([{**NONE, **change}])


def test_the_number_of_training_images_must_make_equal_minibatches(images: Images) -> None:
    with pytest.raises(ArgumentError, match="training must be a multiple of 16, got 100"):
        AugmentedClassifiers([0], images, Task(training=100))


def test_the_default_augments_nothing_and_the_middle_everything() -> None:
    assert all(NONE[probability(one)] == 0 for one in OPERATIONS)
    assert all(middle()[probability(one)] == 0.5 for one in OPERATIONS)
    assert Configuration(space(), values=middle()) != space().get_default_configuration()  # It is in the space.
