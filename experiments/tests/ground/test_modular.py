"""Transformers that add modulo p: which pairs they see, what they use, and that they learn the rule."""

from typing import Any

import pytest
import torch

from popbandits.errors import ArgumentError
from popbandits_experiments.batched.random import Streams, keys_of
from popbandits_experiments.ground.modular import STANDARD, BatchedModular, Pairs, Settings
from popbandits_experiments.ground.sequences import DEFAULTS

SMALL = Settings(modulus=11, training=96, validation=12, epochs=2, width=8)
SGD: dict[str, Any] = {**DEFAULTS, "optimizer": "sgd", "momentum": 0.5, "lr": 0.1, "minibatches": 2}
CONFIGS = [DEFAULTS | {"lr": 0.01, "label_smoothing": 0.1}, SGD, DEFAULTS | {"dropout": 0.0, "minibatches": 1}]


def streams() -> Streams:
    return Streams(keys_of([1], torch.device("cpu")))


def test_every_pair_is_in_exactly_one_part_with_its_sum() -> None:
    parts = Pairs.split(streams(), Settings(errors=0.0))
    p = STANDARD.modulus
    assert [len(part.values) for part in parts[:2]] == [STANDARD.training, STANDARD.validation]
    found = [tuple(pair) for part in parts for pair in part.numbers.tolist()]
    assert sorted(found) == [(a, b) for a in range(p) for b in range(p)]
    for part in parts:
        assert [(a + b) % p for a, b in part.numbers.tolist()] == part.values.flatten().tolist()
        assert torch.equal(part.symbols.squeeze(-1), part.numbers)
        assert part.known.all()


def test_only_training_has_wrong_values() -> None:
    right, noisy = Pairs.split(streams(), Settings(errors=0.0)), Pairs.split(streams(), Settings(errors=0.5))
    for plain, other in zip(right, noisy, strict=True):
        assert torch.equal(plain.numbers, other.numbers)
    assert 0.4 < float((right[0].values != noisy[0].values).double().mean()) < 0.6
    assert all(torch.equal(right[part].values, noisy[part].values) for part in (1, 2))


def test_the_pairs_are_the_same_everywhere() -> None:
    agent, again = BatchedModular([0]), BatchedModular([1])
    assert agent.training.numbers[:3].tolist() == [[5, 16], [8, 16], [10, 17]]
    for mine, other in zip(
        (agent.training, *agent.held_out.values()), (again.training, *again.held_out.values()), strict=True
    ):
        assert torch.equal(mine.numbers, other.numbers)
        assert torch.equal(mine.values, other.values)


@pytest.mark.parametrize("member", range(3))
def test_a_member_trained_alone_equals_the_same_member_in_company(member: int) -> None:
    together, alone = BatchedModular([5, 6, 7], SMALL), BatchedModular([5 + member], SMALL)
    first, second = together.train(CONFIGS)[member], alone.train([CONFIGS[member]])[0]
    assert first.score == pytest.approx(second.score, abs=9)  # one pair of twelve
    assert first.steps == SMALL.epochs * SMALL.training
    torch.testing.assert_close(together.flat[member], alone.flat[0], rtol=1e-3, atol=1e-4)
    applied = together.applied()[member]
    assert applied == {name: pytest.approx(value) for name, value in CONFIGS[member].items() if name in applied}
    assert applied.keys() >= CONFIGS[member].keys() - {"beta1", "momentum"}


def test_only_the_sum_is_asked_for() -> None:
    """An epoch with one minibatch and SGD equals a step of plain PyTorch on the answers at the second number."""
    config = SGD | {"dropout": 0.0, "minibatches": 1, "weight_decay": 0.0, "momentum": 0.0}
    settings = Settings(modulus=11, training=96, validation=12, epochs=1, width=8)
    agent = BatchedModular([5], settings)
    own = [each.detach().clone().requires_grad_() for each in agent.weights]
    agent.train([config])
    logits = agent.network(own, agent.training.symbols[None])[0, :, 1]
    torch.nn.functional.cross_entropy(logits, agent.training.values[:, 0]).backward()
    torch.nn.utils.clip_grad_norm_(own, config["max_grad_norm"])
    torch.optim.SGD(own, config["lr"]).step()
    for ours, theirs in zip(agent.weights, own, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.slow  # The trainer is Recall's, an epoch of which equals plain PyTorch (test_recall).
def test_it_learns_the_rule() -> None:
    """Chance is one in thirteen; pairs learnt by heart do not help."""
    settings = Settings(modulus=13, training=128, validation=20, errors=0.0, epochs=80, layers=1)
    agent = BatchedModular([1, 2], settings)
    agent.train([DEFAULTS | {"lr": 0.003, "weight_decay": 0.001, "dropout": 0.1}] * 2)
    assert float(agent.evaluate([0, 1]).mean()) > 25


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ArgumentError, match="training must be a multiple of 16, got 20"):
        BatchedModular([0], Settings(training=20))
    with pytest.raises(ArgumentError, match=r"must leave pairs for the test: together less than 121, got 112 and 9"):
        BatchedModular([0], Settings(modulus=11, training=112, validation=9))
