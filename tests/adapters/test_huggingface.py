"""Hugging Face's Trainer as an agent."""

import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from popbandits.adapters.huggingface import TrainerAgent
from popbandits.errors import AgentError, ArgumentError
from popbandits.testing import check_agent
from tests.adapters.checking import Payload, flawless, saved

pytestmark = pytest.mark.integration


def sentences(count: int, seed: int) -> list[dict[str, Any]]:
    words = torch.randint(0, 20, (count, 6), generator=torch.Generator().manual_seed(seed))
    return [{"input_ids": row, "labels": int(row[0] > 9)} for row in words]


def make_trainer(config: dict[str, Any], arguments: Any) -> Any:
    from transformers import BertConfig, BertForSequenceClassification, Trainer  # `make test` collects without them.

    shape = BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
        hidden_dropout_prob=config.get("hidden_dropout_prob", 0.1),
    )
    model = BertForSequenceClassification(shape)
    return Trainer(model, arguments, train_dataset=sentences(64, 1), eval_dataset=sentences(64, 2))


def make_agent(seed: int, **settings: Any) -> TrainerAgent:
    return TrainerAgent(make_trainer, **{"seed": seed, "steps": 3, "arguments": {"use_cpu": True}} | settings)


def test_it_passes_the_check() -> None:
    space = {
        "learning_rate": (1e-3, 1e-1),
        "weight_decay": (0.01, 0.1),
        "hidden_dropout_prob": (0.0, 0.5),
        "per_device_train_batch_size": [4, 8],
        "optim": ["adamw_torch", "sgd"],
    }
    flawless(check_agent(make_agent, space))


def test_a_schedule_spans_the_run_and_goes_on_with_the_new_rate(tmp_path: Path) -> None:
    arguments = {"use_cpu": True, "lr_scheduler_type": "linear"}
    first, second = (make_agent(seed, total_steps=12, arguments=arguments) for seed in (0, 1))
    first.train({"learning_rate": 0.1, "weight_decay": 0.1})
    second.load(saved(first, tmp_path / "a"))
    config = {"learning_rate": 0.01, "weight_decay": 0.2, "hidden_dropout_prob": 0.3}
    second.train(config)
    assert second.applied() == config
    state = torch.load(saved(second, tmp_path / "b") / "optimizer.pt", weights_only=True)
    assert [group["initial_lr"] for group in state["param_groups"]] == [0.01, 0.01]
    assert [group["lr"] for group in state["param_groups"]] == pytest.approx([0.005, 0.005])  # Half of the run is over.
    assert sorted(group["weight_decay"] for group in state["param_groups"]) == [0.0, 0.2]


def test_an_interval_beyond_the_end_of_the_schedule_is_refused() -> None:
    agent = make_agent(0, total_steps=4)
    agent.train({"learning_rate": 0.1})
    with pytest.raises(AgentError, match="total_steps must cover every interval, got 4 where 6 are trained"):
        agent.train({"learning_rate": 0.1})


def test_the_checkpoint_is_a_model_that_transformers_loads(tmp_path: Path) -> None:
    from transformers import BertForSequenceClassification

    agent = make_agent(0)
    agent.train({"learning_rate": 0.1})
    assert BertForSequenceClassification.from_pretrained(saved(agent, tmp_path / "a")).config.hidden_size == 16


def test_a_pickle_in_place_of_any_file_of_a_checkpoint_is_not_executed(tmp_path: Path) -> None:
    config = {"learning_rate": 0.01}
    first = make_agent(0)
    first.train(config)
    folder = saved(first, tmp_path / "saved")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        path.write_bytes(pickle.dumps(Payload(tmp_path / "it-ran")))
        with suppress(Exception):  # A run records it as the failure of an interval.
            second = make_agent(1)
            second.load(folder)
            second.train(config)
        assert not (tmp_path / "it-ran").exists(), path
        path.write_bytes(content)


def test_a_score_that_is_not_measured_is_named() -> None:
    with pytest.raises(
        AgentError, match=r"score must name a metric of evaluate, got 'eval_f1' where are .*'eval_loss'"
    ):
        make_agent(0, score="eval_f1").train({"learning_rate": 0.1})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"arguments": {"max_steps": 9}}, "the adapter sets .* itself, got max_steps; leave it out"),
        (
            {"arguments": {"lr_scheduler_type": "cosine"}},
            "a schedule needs the length of the run, got 'cosine' without",
        ),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make_agent(0, **wrong)
