"""The classifiers of digits: updates against plain PyTorch, members apart from one another, parts of the data apart."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor
from torch.nn import functional

from popbandits.engines.work import differences
from popbandits.errors import ArgumentError, MissingExtraError
from popbandits_experiments.batched.random import Streams, derive_keys, keys_of
from popbandits_experiments.ground.digits import DEFAULTS, BatchedDigits, Settings, narrow, shifted, wide
from popbandits_experiments.ground.digits_data import LARGEST_ANGLE, VIEWS, Digits, Task, make_views, split

SMALL = Settings(Task(training=64, validation=200), epochs=3, hidden=16)
COMMON = {"lr": 0.01, "weight_decay": 0.01, "label_smoothing": 0.1, "input_noise": 0.3, "dropout": 0.2}
CONFIGS: dict[str, dict[str, Any]] = {
    "adam": COMMON
    | {"minibatches": 4, "augmentation": "shift", "loss": "cross_entropy", "schedule": "linear"}
    | {"optimizer": "adam", "beta1": 0.8},
    "rmsprop": COMMON
    | {"minibatches": 16, "augmentation": "rotate", "loss": "brier", "schedule": "cosine"}
    | {"optimizer": "rmsprop", "smoothing": 0.95},
    "sgd": COMMON
    | {"minibatches": 1, "augmentation": "none", "loss": "absolute", "schedule": "constant"}
    | {"optimizer": "sgd", "momentum": 0.7, "lr": 0.1},
}
BATCH = list(CONFIGS.values())


@pytest.fixture(scope="module")
def data() -> Digits:
    return Digits.load()


def weights(agent: BatchedDigits, member: int) -> Tensor:
    return agent.flat[member].detach().clone()


# An update


def make_optimizer(config: dict[str, Any], parameters: list[Tensor]) -> torch.optim.Optimizer:
    lr, decay = config["lr"], config["weight_decay"]
    match config["optimizer"]:
        case "adam":
            return torch.optim.Adam(parameters, lr, (config["beta1"], 0.999), 1e-5, decay)
        case "rmsprop":
            return torch.optim.RMSprop(parameters, lr, config["smoothing"], 1e-5, decay)
        case _:
            return torch.optim.SGD(parameters, lr, config["momentum"], weight_decay=decay)


def make_loss(config: dict[str, Any], logits: Tensor, labels: Tensor) -> Tensor:
    smoothing = config["label_smoothing"]
    if config["loss"] == "cross_entropy":
        return functional.cross_entropy(logits, labels, label_smoothing=smoothing)
    wanted = torch.full_like(logits, smoothing / 10)
    wanted[torch.arange(len(labels)), labels] += 1 - smoothing
    power = {"brier": 2, "absolute": 1}[config["loss"]]
    return (functional.softmax(logits, 1) - wanted).abs().pow(power).mean() * 10


def plain_training(seed: int, config: dict[str, Any], first: list[Tensor], data: Digits, intervals: int) -> Tensor:
    """Train one classifier as anybody would, from the member's first weights and with its random numbers."""
    parts = split(data, SMALL.task)
    parameters = [each.clone().requires_grad_() for each in first]
    into, into_bias, out, out_bias = parameters
    optimizer = make_optimizer(config, parameters)
    images, key = SMALL.task.training, keys_of([seed], torch.device("cpu"))
    views = parts.views[("none", "shift", "rotate").index(config["augmentation"])]
    for interval in range(intervals):
        streams = Streams(derive_keys(key, torch.tensor([interval])))
        for epoch in range(SMALL.epochs):
            fall = {
                "constant": 1,
                "linear": 1 - epoch / SMALL.epochs,
                "cosine": math.cos(math.pi / 2 * epoch / SMALL.epochs) ** 2,
            }
            optimizer.param_groups[0]["lr"] = config["lr"] * fall[config["schedule"]]
            order = streams.uniform(images)[0].argsort(stable=True)
            view = (streams.uniform(images)[0] * VIEWS).long()
            noise, drops = streams.normal(images, 64)[0], streams.uniform(images, SMALL.hidden)[0]
            for batch in torch.arange(images).chunk(config["minibatches"]):
                seen = views[view[batch], order[batch]] + config["input_noise"] * noise[batch]
                hidden = functional.linear(seen, into[0].T, into_bias[0, 0]).tanh()
                hidden = hidden * (drops[batch] >= config["dropout"]) / (1 - config["dropout"])
                logits = functional.linear(hidden, out[0].T, out_bias[0, 0])
                optimizer.zero_grad()
                make_loss(config, logits, parts.labels[order[batch]]).backward()
                optimizer.step()
    return torch.cat([each.detach().flatten() for each in parameters])


@pytest.mark.parametrize("name", CONFIGS)
def test_two_intervals_of_a_member_equal_those_of_one_plain_model(data: Digits, name: str) -> None:
    member = list(CONFIGS).index(name)
    agent = BatchedDigits([5, 6, 7], SMALL, data)
    first = [each[member : member + 1].detach().clone() for each in agent.weights]
    before = weights(agent, member)
    for _ in range(2):
        agent.train(BATCH)
    expected = plain_training(5 + member, CONFIGS[name], first, data, intervals=2)
    assert (weights(agent, member) - before).abs().max() > 0.02
    torch.testing.assert_close(weights(agent, member), expected, rtol=1e-4, atol=1e-5)


def test_scores_are_accuracies_of_the_clean_network(data: Digits) -> None:
    agent = BatchedDigits([5, 6, 7], SMALL, data)
    outcomes = agent.train(BATCH)
    tested = agent.evaluate([2, 0], episodes=5, seeds=[8, 9]).mean(1).tolist()
    parts = agent.split
    for member, outcome in enumerate(outcomes):
        into, into_bias, out, out_bias = (each[member].detach() for each in agent.weights)

        def logits(rows: Tensor, into=into, into_bias=into_bias, out=out, out_bias=out_bias) -> Tensor:
            return ((data.images[rows] * 2 - 1) @ into + into_bias).tanh() @ out + out_bias

        found, labels = logits(parts.validation), data.labels[parts.validation]
        assert outcome.score == pytest.approx(100 * (found.argmax(1) == labels).double().mean().item(), abs=1e-4)
        assert outcome.steps == 3 * 64
        if member != 1:
            right = (logits(parts.test).argmax(1) == data.labels[parts.test]).double().mean().item()
            assert tested[0 if member == 2 else 1] == pytest.approx(100 * right, abs=1e-4)


def test_two_intervals_teach_most_of_the_digits(data: Digits) -> None:
    agent = BatchedDigits([0], Settings(epochs=4), data)
    assert float(agent.evaluate([0]).mean()) < 30
    scores = [agent.train([{**DEFAULTS, "lr": 0.01}])[0].score for _ in range(2)]
    assert scores[-1] > 80
    assert float(agent.evaluate([0]).mean()) > 80


# Members and their company


@pytest.mark.parametrize("member", range(3))
def test_a_member_trained_alone_equals_the_same_member_in_company(data: Digits, member: int) -> None:
    together, alone = BatchedDigits([5, 6, 7], SMALL, data), BatchedDigits([5 + member], SMALL, data)
    for interval in range(2):
        keys = [(i, interval) for i in range(3)]
        together.assigned(keys)
        alone.assigned(keys[member : member + 1])
        in_company, by_itself = together.train(BATCH)[member], alone.train(BATCH[member : member + 1])[0]
        assert in_company.score == by_itself.score
    torch.testing.assert_close(weights(together, member), weights(alone, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ill", ["large steps", "no numbers"])
def test_a_member_that_diverges_changes_nothing_for_the_others(data: Digits, ill: str) -> None:
    sound, spoilt = BatchedDigits([5, 6, 7], SMALL, data), BatchedDigits([5, 6, 7], SMALL, data)
    configs = list(BATCH)
    if ill == "large steps":
        configs[1] = {**CONFIGS["sgd"], "lr": 1e38, "weight_decay": 0.1, "loss": "cross_entropy", "minibatches": 16}
    else:
        with torch.no_grad():
            spoilt.flat[1, 0] = math.nan
    for _ in range(2):
        expected, found = sound.train(BATCH), spoilt.train(configs)
        assert math.isnan(found[1].score)
        assert spoilt.evaluate([1]).isnan().all()
        assert (found[0], found[2]) == (expected[0], expected[2])
    assert torch.equal(weights(spoilt, 0), weights(sound, 0))
    assert torch.equal(weights(spoilt, 2), weights(sound, 2))


def test_a_member_whose_gradient_is_not_finite_stays_where_it_is(data: Digits) -> None:
    agent = BatchedDigits([5, 6, 7], SMALL, data)
    with torch.no_grad():
        agent.flat[1] = 1e38  # Finite, but no longer summed over the hidden units.
    agent.train(BATCH)
    assert torch.equal(weights(agent, 1), torch.full_like(agent.flat[1], 1e38))


def test_a_diverged_member_is_sound_again_after_a_copy_or_a_reset(data: Digits) -> None:
    agent = BatchedDigits([5, 6, 7], SMALL, data)
    with torch.no_grad():
        agent.flat[1:] = math.nan
    agent.train(BATCH)
    agent.copy([0, 0, 2])
    agent.reset(2, 7)
    assert all(math.isfinite(outcome.score) for outcome in agent.train(BATCH))


def test_members_that_go_on_from_one_parent_draw_other_numbers_if_they_are_told_apart(data: Digits) -> None:
    agent = BatchedDigits([5, 6], SMALL, data)
    agent.copy([0, 0])
    agent.train([CONFIGS["adam"]] * 2)
    assert torch.equal(weights(agent, 0), weights(agent, 1))
    agent.assigned([(0, 1), (1, 1)])
    agent.train([CONFIGS["adam"]] * 2)
    assert not torch.allclose(weights(agent, 0), weights(agent, 1), atol=1e-3)
    agent.copy([0, 0])
    agent.train([CONFIGS["adam"]] * 2)  # What they were told held for one interval.
    assert torch.equal(weights(agent, 0), weights(agent, 1))


# Checkpoints


def test_a_saved_member_goes_on_as_if_nothing_had_happened_at_another_index_of_another_batch(
    data: Digits, tmp_path: Path
) -> None:
    agent, other = BatchedDigits([5, 6, 7], SMALL, data), BatchedDigits([1, 2, 3], SMALL, data)
    agent.train(BATCH)
    agent.save(0, tmp_path)
    before = weights(other, 0)
    other.load(2, tmp_path)
    assert torch.equal(weights(other, 0), before)
    expected, found = agent.train(BATCH), other.train([BATCH[2], BATCH[1], BATCH[0]])
    assert found[2] == expected[0]
    for name, tensor in agent.state.items():
        torch.testing.assert_close(other.state[name][2], tensor[0], rtol=1e-6, atol=1e-7)


def test_a_copy_takes_all_of_a_member_and_all_at_once(data: Digits) -> None:
    agent = BatchedDigits([5, 6, 7], SMALL, data)
    agent.train(BATCH)
    before = {name: tensor.detach().clone() for name, tensor in agent.state.items()}
    agent.copy([1, 2, 1])
    assert {"weights", "first", "second", "steps", "kind", "key", "trained"} == before.keys()
    for name, tensor in agent.state.items():
        assert torch.equal(tensor, before[name][[1, 2, 1]])


def test_a_reset_is_a_fresh_start_of_one_member(data: Digits) -> None:
    agent, fresh = BatchedDigits([5, 6, 7], SMALL, data), BatchedDigits([5, 40, 7], SMALL, data)
    agent.train(BATCH)
    untouched = weights(agent, 0)
    agent.reset(1, 40)
    assert torch.equal(weights(agent, 0), untouched)
    for name, tensor in agent.state.items():
        assert torch.equal(tensor[1], fresh.state[name][1])


# Hyperparameters


CHANGES: dict[str, dict[str, Any]] = {
    "lr": {"lr": 0.02},
    "weight_decay": {"weight_decay": 0.1},
    "label_smoothing": {"label_smoothing": 0.4},
    "input_noise": {"input_noise": 0.6},
    "dropout": {"dropout": 0.5},
    "minibatches": {"minibatches": 8},
    "augmentation": {"augmentation": "rotate"},
    "loss": {"loss": "brier"},
    "schedule": {"schedule": "cosine"},
    "beta1": {"beta1": 0.6},
    "optimizer": {"optimizer": "rmsprop", "smoothing": 0.95},
    "smoothing": {"optimizer": "rmsprop", "smoothing": 0.99},
    "momentum": {"optimizer": "sgd", "momentum": 0.9},
}


def test_every_hyperparameter_has_an_effect(data: Digits) -> None:
    assert CHANGES.keys() == set(wide()) == set(shifted()) == {*narrow(), "momentum"}
    base = CONFIGS["adam"]
    changed = [{**base, **change} for change in CHANGES.values()]
    configs = [base, base, {**base, "optimizer": "sgd", "momentum": 0.0}, *changed]
    agent = BatchedDigits([5] * len(configs), SMALL, data)
    agent.train(configs)
    trained = dict(zip(["base", "again", "sgd", *CHANGES], agent.flat.detach(), strict=True))
    assert torch.equal(trained["base"], trained["again"])
    references = {"smoothing": "optimizer", "momentum": "sgd"}
    for name in CHANGES:
        assert (trained[name] - trained[references.get(name, "base")]).abs().max() > 1e-3, name


@pytest.mark.parametrize("make", [wide, shifted, narrow])
def test_what_is_sampled_can_be_trained_with_and_is_applied(data: Digits, make: Any) -> None:
    space = make()
    space.seed(0)
    assert dict(space.get_default_configuration()) == DEFAULTS
    configs = [dict(config) for config in space.sample_configuration(30)]
    agent = BatchedDigits(range(30), SMALL, data)
    agent.train(configs)
    for config, applied in zip(configs, agent.applied(), strict=True):
        assert differences(config, applied) == []
        assert config.keys() - applied.keys() <= {"beta1", "smoothing", "momentum"}
        assert len(config.keys() & {"beta1", "smoothing", "momentum"}) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"minibatches": 3}, r"minibatches must be one of \(1, 2, 4, 8, 16\), got 3"),
        ({"augmentation": "flip"}, "augmentation must be one of .*, got 'flip'"),
        ({"loss": "hinge"}, "loss must be one of .*, got 'hinge'"),
        ({"schedule": "step"}, "schedule must be one of .*, got 'step'"),
        ({"optimizer": "lion"}, "optimizer must be one of adam, rmsprop, sgd, got 'lion'"),
    ],
)
def test_a_value_outside_of_the_choices_is_refused(data: Digits, change: dict[str, Any], message: str) -> None:
    agent = BatchedDigits([0], SMALL, data)
    with pytest.raises(ArgumentError, match=message):
        agent.train([{**CONFIGS["adam"], **change}])


# The data


def test_the_parts_share_no_image_and_leave_none_out(data: Digits) -> None:
    parts = split(data, Task())
    assert (len(parts.training), len(parts.validation), len(parts.test)) == (400, 600, 797)
    assert sorted([*parts.training.tolist(), *parts.validation.tolist(), *parts.test.tolist()]) == list(range(1797))
    pictures = {name: {tuple(row) for row in rows.tolist()} for name, (rows, _) in parts.shown.items()}
    learnt = {tuple(row) for row in parts.views[0, 0].tolist()}
    assert learnt.isdisjoint(pictures["validation"])
    assert learnt.isdisjoint(pictures["test"])
    assert pictures["validation"].isdisjoint(pictures["test"])


def test_a_fifth_of_the_training_labels_is_wrong_and_no_other(data: Digits) -> None:
    parts, again = split(data, Task()), split(data, Task())
    wrong = parts.labels != data.labels[parts.training]
    assert int(wrong.sum()) == 80
    assert len(set(parts.labels[wrong].tolist())) == 10
    assert torch.equal(parts.labels, again.labels)
    for name, rows in (("validation", parts.validation), ("test", parts.test)):
        assert torch.equal(parts.shown[name][1], data.labels[rows])
    other = split(data, Task(seed=1))
    assert not torch.equal(parts.training, other.training)


def test_what_is_held_out_changes_neither_what_is_learnt_nor_the_test_the_score(data: Digits) -> None:
    parts = split(data, SMALL.task)

    def trained(*spoilt: Tensor) -> tuple[Tensor, list[Any], list[float]]:
        images, labels = data.images.clone(), data.labels.clone()
        for rows in spoilt:
            images[rows], labels[rows] = images[rows].flip(0), (labels[rows] + 1) % 10
        agent = BatchedDigits([5, 6, 7], SMALL, Digits(images, labels))
        outcomes = agent.train(BATCH)
        return agent.flat.detach(), outcomes, agent.evaluate(range(3)).mean(1).tolist()

    learnt, scores, finals = trained()
    for rows, same_score, same_final in ((parts.validation, False, True), (parts.test, True, False)):
        other_learnt, other_scores, other_finals = trained(rows)
        assert torch.equal(other_learnt, learnt)
        assert (other_scores == scores) is same_score
        assert (other_finals == finals) is same_final
    assert not torch.equal(trained(parts.training)[0], learnt)


def test_shifted_and_rotated_views_are_those_of_scipy(data: Digits) -> None:
    images = data.images[:5]
    none, shifts, turns = make_views(images)
    for number, square in enumerate(images.view(-1, 8, 8).numpy()):
        assert all(np.array_equal(view[number], square.ravel()) for view in none)
        for view, (down, right) in enumerate((down, right) for down in (1, 0, -1) for right in (1, 0, -1)):
            moved = ndimage.shift(square, (down, right), order=0)
            np.testing.assert_array_equal(shifts[view, number].view(8, 8), moved)
        for view, angle in enumerate(np.linspace(-LARGEST_ANGLE, LARGEST_ANGLE, VIEWS)):
            turned = ndimage.rotate(square, angle, reshape=False, order=1, mode="grid-constant")
            np.testing.assert_allclose(turns[view, number].view(8, 8), turned, atol=1e-5)


def test_the_data_can_be_carried_to_a_machine_without_scikit_learn(
    data: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.save(tmp_path / "digits.npz")
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtraError, match=r"scikit-learn, which is not installed.*path of a file"):
        BatchedDigits([0], SMALL)
    carried = BatchedDigits([0, 1, 2], SMALL, tmp_path / "digits.npz")
    assert carried.train(BATCH) == BatchedDigits([0, 1, 2], SMALL, data).train(BATCH)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task(training=100), "training must be a multiple of 16, got 100"),
        (Task(training=1600, validation=197), "leave images for the test: together less than 1797, got 1600 and 197"),
        (Task(wrong=1.5), "wrong must be a share between 0 and 1, got 1.5"),
    ],
)
def test_a_task_that_cannot_be_is_refused(data: Digits, task: Task, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        BatchedDigits([0], Settings(task), data)
