"""Transformers that recall: what the sequences say, an update against plain PyTorch, members apart from one another."""

import math
from typing import Any

import pytest
import torch
from ConfigSpace import ConfigurationSpace

from popbandits.errors import ArgumentError
from popbandits_experiments.batched.random import Streams, derive_keys, keys_of
from popbandits_experiments.ground.recall import KEYS, BatchedRecall, Sequences, Settings
from popbandits_experiments.ground.sequences import DEFAULTS, narrow, shifted, wide

SMALL = Settings(training=32, held_out=16, pairs=6, epochs=2, width=8)
SGD: dict[str, Any] = {**DEFAULTS, "optimizer": "sgd", "momentum": 0.5, "lr": 0.1, "minibatches": 2}
CONFIGS = [DEFAULTS | {"lr": 0.01, "label_smoothing": 0.1}, SGD, DEFAULTS | {"dropout": 0.0, "minibatches": 1}]


def test_a_key_has_one_value_in_a_sequence_and_symbols_show_the_pair_before() -> None:
    streams = Streams(keys_of([1], torch.device("cpu")))
    data = Sequences.draw(streams, 50, 12)
    for keys, values, symbols, known in zip(data.keys, data.values, data.symbols, data.known, strict=True):
        meaning: dict[int, int] = {}
        for place, (key, value) in enumerate(zip(keys.tolist(), values.tolist(), strict=True)):
            assert bool(known[place]) == (key in meaning)
            assert meaning.setdefault(key, value) == value
            before = (KEYS + keys[place - 1], 2 * KEYS + values[place - 1]) if place else (-1, -1)
            assert symbols[place].tolist() == [key, *map(int, before)]
    noisy = Sequences.draw(Streams(keys_of([1], torch.device("cpu"))), 50, 12, errors=0.5)
    assert torch.equal(noisy.keys, data.keys)
    # One wrong value in eight happens to be right.
    assert 0.35 < float((noisy.values != data.values).double().mean()) < 0.53


def test_the_language_is_the_same_everywhere() -> None:
    agent = BatchedRecall([0], Settings(training=16, held_out=2))
    assert agent.training.keys[0, :6].tolist() == [5, 4, 5, 5, 0, 2]
    assert not torch.equal(agent.held_out["test"].keys, agent.held_out["validation"].keys)


def test_an_epoch_of_a_member_equals_plain_pytorch() -> None:
    """The second member: no dropout's scale, SGD with momentum, two minibatches an epoch."""
    agent = BatchedRecall([5, 6, 7], SMALL)
    own = [each[1:2].detach().clone().requires_grad_() for each in agent.weights]
    agent.train(CONFIGS)
    optimizer = torch.optim.SGD(own, SGD["lr"], SGD["momentum"], weight_decay=SGD["weight_decay"])
    streams = Streams(derive_keys(keys_of([6], torch.device("cpu")), torch.tensor([0])))
    for _ in range(SMALL.epochs):
        order = streams.uniform(SMALL.training)[0].argsort(stable=True)
        drops = streams.uniform(SMALL.training, SMALL.layers, SMALL.width)
        masks = (drops >= SGD["dropout"]) / (1 - SGD["dropout"])
        for rows in torch.arange(SMALL.training).chunk(SGD["minibatches"]):
            logits = agent.network(own, agent.training.symbols[order[rows]][None], masks[:, rows])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 2), agent.training.values[order[rows]].flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(own, SGD["max_grad_norm"])
            optimizer.step()
    for ours, theirs in zip(agent.weights, own, strict=True):
        torch.testing.assert_close(ours[1:2], theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("member", range(3))
def test_a_member_trained_alone_equals_the_same_member_in_company(member: int) -> None:
    together, alone = BatchedRecall([5, 6, 7], SMALL), BatchedRecall([5 + member], SMALL)
    first, second = together.train(CONFIGS)[member], alone.train([CONFIGS[member]])[0]
    assert first.score == pytest.approx(second.score, abs=3)
    torch.testing.assert_close(together.flat[member], alone.flat[0], rtol=1e-3, atol=1e-4)
    applied = together.applied()[member]
    assert applied == {name: pytest.approx(value) for name, value in CONFIGS[member].items() if name in applied}


def test_a_member_that_diverged_has_no_score_and_harms_nobody() -> None:
    agent, sound = BatchedRecall([5, 6], SMALL), BatchedRecall([5, 6], SMALL)
    with torch.no_grad():
        agent.flat[1] = math.nan
    scores = [outcome.score for outcome in agent.train(CONFIGS[:2])]
    assert math.isnan(scores[1])
    assert scores[0] == sound.train(CONFIGS[:2])[0].score
    assert agent.evaluate([1]).isnan().all()
    assert set(agent.evaluate([0]).unique().tolist()) <= {0.0, 100.0}


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ArgumentError, match="training must be a multiple of 16, got 20"):
        BatchedRecall([0], Settings(training=20))
    with pytest.raises(ArgumentError, match=r"minibatches must be one of .*, got 3"):
        BatchedRecall([0], SMALL).train([DEFAULTS | {"minibatches": 3}])


@pytest.mark.parametrize("space", [wide(), shifted(), narrow()], ids=["wide", "shifted", "narrow"])
def test_the_defaults_of_every_space_are_the_usual_settings(space: ConfigurationSpace) -> None:
    assert dict(space.get_default_configuration()) == DEFAULTS
