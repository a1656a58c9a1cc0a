"""PyTorch Lightning as an agent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from popbandits.adapters.lightning import LightningAgent
from popbandits.errors import AgentError, ArgumentError
from popbandits.testing import check_agent
from tests.adapters.checking import Payload, flawless, saved

pytestmark = pytest.mark.integration


def make_agent(seed: int) -> LightningAgent:
    from tests.adapters import lightning_agents  # `make test` collects this file without Lightning.

    return lightning_agents.make_agent(seed)


def test_it_passes_the_check() -> None:
    space = {"lr": (1e-3, 1e-1), "weight_decay": (0.0, 0.1), "dropout": (0.0, 0.5), "optimizer": ["Adam", "SGD"]}
    flawless(check_agent(make_agent, space))


def test_a_schedule_goes_on_from_its_factor_with_the_new_rate(tmp_path: Path) -> None:
    import torch

    first, second = make_agent(0), make_agent(1)
    first.train({"lr": 0.1, "weight_decay": 0.01})
    second.load(saved(first, tmp_path / "a"))
    second.train({"lr": 0.01, "weight_decay": 0.02})
    assert second.applied() == {"lr": 0.01, "weight_decay": 0.02}
    checkpoint = torch.load(saved(second, tmp_path / "b") / "model.ckpt", weights_only=False)
    [group] = checkpoint["optimizer_states"][0]["param_groups"]
    assert (group["initial_lr"], group["weight_decay"]) == (0.01, 0.02)
    assert group["lr"] == pytest.approx(0.01 / 4)  # The rate is halved by each of two epochs.
    assert checkpoint["epoch"] == 2
    assert checkpoint["lr_schedulers"][0]["base_lrs"] == [0.01]


def test_a_score_that_was_not_logged_is_named() -> None:
    from tests.adapters.lightning_agents import Net, data

    agent = LightningAgent(Net, data, seed=0, score="val_accuracy", trainer={"accelerator": "cpu"})
    with pytest.raises(
        AgentError, match=r"score must name a logged metric, got 'val_accuracy' where there are .'val_loss'"
    ):
        agent.train({"lr": 0.1})


@pytest.mark.parametrize(
    "given", [lambda one: one, lambda one: [one], lambda one: (one,)], ids=["one", "list", "tuple"]
)
def test_callbacks_may_be_one_or_several(given: Callable[[Any], Any]) -> None:
    import lightning.pytorch as lightning

    from tests.adapters.lightning_agents import Net, data

    ended: list[int] = []

    class Counts(lightning.Callback):
        def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
            ended.append(trainer.current_epoch)

    trainer = {"accelerator": "cpu", "callbacks": given(Counts())}
    LightningAgent(Net, data, seed=0, score="val_loss", trainer=trainer).train({"lr": 0.1})
    assert ended == [1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"data": [1, 2]}, "data must be a function that builds loaders or a data module, got .1, 2."),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"trainer": {"max_epochs": 9}}, "an interval's length is set by epochs, got max_epochs for the trainer"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        LightningAgent(**{"module": object, "data": list, "seed": 0, "score": "x"} | wrong)


def test_an_object_in_a_checkpoint_is_not_unpickled(tmp_path: Path) -> None:
    import torch

    agent = make_agent(0)
    agent.train({"lr": 0.1})
    folder = saved(agent, tmp_path / "saved")
    content = torch.load(folder / "model.ckpt", weights_only=True)
    torch.save(content | {"more": Payload(tmp_path / "it-ran")}, folder / "model.ckpt")
    agent.load(folder)
    with pytest.raises(AgentError, match=r"must hold plain values and tensors, got an object, .* weights_only=False"):
        agent.train({"lr": 0.1})
    assert not (tmp_path / "it-ran").exists()
