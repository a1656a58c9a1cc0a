"""Batched optimizers: PyTorch's own, member by member, and the masks that PyTorch's do not have."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from popbandits.errors import ArgumentError
from popbandits_experiments.batched.optimizers import EPSILON, BatchedOptimizer, minibatch_ends

CONFIGS: list[dict[str, Any]] = [
    {"optimizer": "adam", "lr": 1e-2, "beta1": 0.9},
    {"optimizer": "adam", "lr": 3e-3, "beta1": 0.5, "max_grad_norm": 0.3},
    {"optimizer": "adam", "lr": 1e-2, "beta1": 0.0, "weight_decay": 0.1},
    {"optimizer": "rmsprop", "lr": 1e-2, "smoothing": 0.9},
    {"optimizer": "rmsprop", "lr": 1e-3, "smoothing": 0.99, "max_grad_norm": 1.0, "weight_decay": 0.02},
    {"optimizer": "sgd", "lr": 1e-1, "momentum": 0.0},
    {"optimizer": "sgd", "lr": 1e-2, "momentum": 0.9, "max_grad_norm": 0.5},
    {"optimizer": "sgd", "lr": 1e-2, "momentum": 0.5, "weight_decay": 0.3},
]
SHAPES = [(3, 2), (1, 2)]


def plain(config: dict[str, Any], weights: list[Tensor]) -> torch.optim.Optimizer:
    """Make PyTorch's optimizer of a configuration."""
    common = {"lr": config["lr"], "weight_decay": config.get("weight_decay", 0.0)}
    match config["optimizer"]:
        case "adam":
            return torch.optim.Adam(weights, betas=(config["beta1"], 0.999), eps=EPSILON, **common)
        case "rmsprop":
            return torch.optim.RMSprop(weights, alpha=config["smoothing"], eps=EPSILON, **common)
        case _:
            return torch.optim.SGD(weights, momentum=config["momentum"], **common)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def every(members: int) -> Tensor:
    return torch.ones(members, 1, dtype=torch.bool)


def test_steps_are_those_of_pytorch_for_members_with_settings_of_their_own() -> None:
    members = len(CONFIGS)
    flat = draw(members, 8)
    rows = [[row[:6].view(3, 2).clone(), row[6:].view(1, 2).clone()] for row in flat]
    for row in rows:
        for tensor in row:
            tensor.requires_grad_()
    theirs = [plain(config, row) for config, row in zip(CONFIGS, rows, strict=True)]
    ours = BatchedOptimizer(flat)
    ours.configure(CONFIGS)
    for number in range(6):
        # From far below the clip to far above it.
        gradients = [draw(members, *shape, seed=number) * 10.0 ** (number - 3) for shape in SHAPES]
        ours.step(gradients, every(members))
        for member, (optimizer, row) in enumerate(zip(theirs, rows, strict=True)):
            for tensor, gradient in zip(row, gradients, strict=True):
                tensor.grad = gradient[member].clone()
            nn.utils.clip_grad_norm_(row, CONFIGS[member].get("max_grad_norm", torch.inf))
            optimizer.step()
    expected = torch.stack([torch.cat([tensor.detach().flatten() for tensor in row]) for row in rows])
    # Settings are float32, as on the device: a relative error of 6e-8 each.
    torch.testing.assert_close(flat, expected, rtol=1e-6, atol=1e-6)


def test_chunks_add_up_to_one_step_and_members_step_when_they_are_due() -> None:
    configs = [CONFIGS[1]] * 3
    chunks = [draw(3, 8, seed=number) for number in range(4)]
    due = minibatch_ends(torch.tensor([4.0, 8.0, 16.0]))[:4]  # after 4 chunks, 2 chunks, each
    assert due.squeeze(-1).tolist() == [
        [False, False, True],
        [False, True, True],
        [False, False, True],
        [True, True, True],
    ]
    together = BatchedOptimizer(draw(3, 8, seed=9))
    together.configure(configs)
    for chunk, now in zip(chunks, due, strict=True):
        before = together.weights.clone()
        together.step([chunk], now)
        assert (together.weights == before).all(1).tolist() == (~now.squeeze(-1)).tolist()
    assert not together.gradient.any()
    assert together.steps.flatten().tolist() == [1, 2, 4]
    for member, size in enumerate((4, 2, 1)):
        alone = BatchedOptimizer(draw(3, 8, seed=9)[member : member + 1].clone())
        alone.configure(configs[:1])
        for first in range(0, 4, size):
            alone.step([sum(chunks[first + 1 : first + size], chunks[first])[member : member + 1]], every(1))
        torch.testing.assert_close(together.weights[member], alone.weights[0], rtol=1e-12, atol=1e-12)


def test_every_number_of_minibatches_ends_that_often_and_with_the_epoch() -> None:
    ends = minibatch_ends(torch.tensor([1.0, 2, 4, 8, 16])).squeeze(-1)
    assert ends.sum(0).tolist() == [1, 2, 4, 8, 16]
    assert ends[-1].all()
    assert ends.T.int().argmax(1).tolist() == [15, 7, 3, 1, 0]  # the first end, so the size of a minibatch less 1


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf, 1e200])
@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[3], CONFIGS[6]])
def test_a_gradient_that_is_not_finite_leaves_its_member_and_goes_away(bad: float, config: dict[str, Any]) -> None:
    ours, others = (BatchedOptimizer(draw(2, 8)) for _ in range(2))
    for optimizer in (ours, others):
        optimizer.configure([config] * 2)
        optimizer.step([draw(2, 8, seed=1)], every(2))
    kept = [tensor.clone() for tensor in (ours.weights, ours.first, ours.second, ours.steps)]
    sound, broken = draw(2, 8, seed=2), draw(2, 8, seed=2)
    broken[0, 3] = bad  # The square of 1e200, and so the norm, is not finite.
    ours.step([broken], every(2))
    others.step([sound], every(2))
    for tensor, before in zip((ours.weights, ours.first, ours.second, ours.steps), kept, strict=True):
        assert torch.equal(tensor[0], before[0])
    assert torch.equal(ours.weights[1], others.weights[1])
    ours.step([draw(2, 8, seed=3)], every(2))
    others.step([draw(2, 8, seed=3)], every(2))
    assert ours.weights.isfinite().all()
    assert not torch.equal(ours.weights[0], kept[0][0])
    assert torch.equal(ours.weights[1], others.weights[1])


def test_another_optimizer_drops_the_moments_and_other_settings_keep_them() -> None:
    ours = BatchedOptimizer(draw(3, 8))
    ours.configure([CONFIGS[0]] * 3)
    for number in range(3):
        ours.step([draw(3, 8, seed=number)], every(3))
    first, second, steps = ours.first.clone(), ours.second.clone(), ours.steps.clone()
    ours.configure([CONFIGS[1], CONFIGS[3], CONFIGS[0]])
    for tensor, before in ((ours.first, first), (ours.second, second), (ours.steps, steps)):
        assert not tensor[1].any()
        assert torch.equal(tensor[[0, 2]], before[[0, 2]])
        assert before.any()
    assert ours.kind.tolist() == [0, 1, 0]


def test_what_a_broken_interval_left_behind_is_not_taken_into_the_next() -> None:
    ours, fresh = (BatchedOptimizer(draw(1, 8)) for _ in range(2))
    for optimizer in (ours, fresh):
        optimizer.configure([CONFIGS[0]])
    ours.step([draw(1, 8, seed=5)], ~every(1))
    for optimizer in (ours, fresh):
        optimizer.configure([CONFIGS[0]])
        optimizer.step([draw(1, 8, seed=6)], every(1))
    assert torch.equal(ours.weights, fresh.weights)


def test_settings_stay_at_their_addresses() -> None:
    ours = BatchedOptimizer(draw(2, 8))
    ours.configure(CONFIGS[:2])
    addresses = {name: tensor.data_ptr() for name, tensor in ours.settings.items()}
    ours.configure(CONFIGS[5:7])
    assert {name: tensor.data_ptr() for name, tensor in ours.settings.items()} == addresses
    assert ours.settings["lr"].flatten().tolist() == pytest.approx([1e-1, 1e-2])


def test_an_unknown_optimizer_is_refused_before_anything_changes() -> None:
    ours = BatchedOptimizer(draw(1, 8))
    ours.configure([CONFIGS[0]])
    with pytest.raises(ArgumentError, match="optimizer must be one of adam, rmsprop, sgd, got 'lion'"):
        ours.configure([{"optimizer": "lion", "lr": 1.0}])
    assert ours.settings["lr"].item() == pytest.approx(1e-2)
