"""An agent in plain PyTorch: what is kept comes back, and hyperparameters never do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from popbandits.adapters.torch_agent import TorchAgent
from popbandits.errors import AgentError
from popbandits.testing import check_agent
from tests.adapters.checking import flawless, saved

SPACE = {"lr": (0.01, 0.1), "momentum": (0.1, 0.9), "weight_decay": (0.0, 0.1), "noise": (0.0, 1.0)}


class Line(TorchAgent):
    kept = ("layer", "optimizer", "generator", "numbers", "seen")

    def build(self) -> None:
        self.layer = nn.Linear(4, 1)
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self.layer.parameters(), momentum=0.5)
        self.generator = torch.Generator().manual_seed(int(torch.randint(1000, ())))
        self.numbers = np.random.default_rng(int(torch.randint(1000, ())))
        self.seen = {"losses": np.zeros(3), "steps": 0}

    def interval(self, config: dict[str, Any]) -> float:
        for _ in range(3):
            x = torch.randn(16, 4) + config.get("noise", 0) * torch.randn(16, 4, generator=self.generator)
            loss = ((self.layer(x) - x.sum(1, keepdim=True) - self.numbers.normal()) ** 2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.seen["losses"][self.seen["steps"] % 3] += loss.item()
            self.seen["steps"] += 1
        return -float(self.seen["losses"].sum())


class Scheduled(Line):
    kept = (*Line.kept, "schedule")

    def build(self) -> None:
        super().build()
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, gamma=0.5)

    def interval(self, config: dict[str, Any]) -> float:
        score = super().interval(config)
        self.schedule.step()
        return score


class Pair(TorchAgent):
    kept = ("actor", "critic")

    def build(self) -> None:
        self.network = nn.Linear(2, 1)
        self.actor = torch.optim.Adam([self.network.weight])
        self.critic = torch.optim.Adam([self.network.bias])

    def interval(self, config: dict[str, Any]) -> float:
        return 0.0


@pytest.mark.parametrize("agent", [Line, Scheduled])
def test_it_passes_the_check(agent: type[TorchAgent]) -> None:
    flawless(check_agent(agent, SPACE))


def test_a_load_brings_moments_back_but_no_hyperparameters(tmp_path: Path) -> None:
    agent = Line(seed=0)
    agent.train({"lr": 0.1, "momentum": 0.9})
    checkpoint = saved(agent, tmp_path / "a")
    moments = agent.optimizer.state_dict()["state"][0]["momentum_buffer"].clone()
    other = Line(seed=1)
    other.load(checkpoint)
    assert torch.equal(other.optimizer.state_dict()["state"][0]["momentum_buffer"], moments)
    assert other.optimizer.param_groups[0]["momentum"] == 0.5  # Its own, until it trains with another.
    other.train({"lr": 0.02, "momentum": 0.3})
    assert other.applied() == {"lr": 0.02, "momentum": 0.3}


def test_a_schedule_goes_on_from_its_factor_with_the_new_rate(tmp_path: Path) -> None:
    agent = Scheduled(seed=0)
    agent.train({"lr": 0.1})
    agent.train({"lr": 0.1})
    other = Scheduled(seed=1)
    other.load(saved(agent, tmp_path / "a"))
    other.train({"lr": 0.08})
    assert other.schedule.get_last_lr() == pytest.approx([0.08 / 8])
    assert other.optimizer.param_groups[0]["lr"] == pytest.approx(0.08 / 8)
    assert other.applied() == {"lr": 0.08}


def test_an_option_that_is_not_tuned_any_more_is_as_it_was_built() -> None:
    agent = Line(seed=0)
    agent.train({"lr": 0.1, "momentum": 0.9, "weight_decay": 0.3})
    agent.train({"lr": 0.1})
    assert (agent.optimizer.param_groups[0]["momentum"], agent.optimizer.param_groups[0]["weight_decay"]) == (0.5, 0)


def test_a_nested_space_addresses_one_of_several_optimizers() -> None:
    agent = Pair(seed=0)
    agent.train({"actor": {"lr": 0.1}, "critic": {"learning_rate": 0.2, "weight_decay": 0.3}})
    assert agent.actor.param_groups[0]["lr"] == 0.1
    assert agent.critic.param_groups[0]["lr"] == 0.2
    assert agent.applied() == {"actor": {"lr": 0.1}, "critic": {"learning_rate": 0.2, "weight_decay": 0.3}}


def test_what_an_interval_changed_behind_its_back_is_told() -> None:
    class Stubborn(Line):
        def interval(self, config: dict[str, Any]) -> float:
            self.optimizer.param_groups[0]["lr"] = 0.5
            return 0.0

    agent = Stubborn(seed=0)
    agent.train({"lr": 0.1})
    assert agent.applied() == {"lr": 0.5}


def test_an_optimizer_of_another_class_begins_anew(tmp_path: Path) -> None:
    class Adam(Line):
        def build(self) -> None:
            super().build()
            self.optimizer = torch.optim.Adam(self.layer.parameters())

    agent = Line(seed=0)
    agent.train({"lr": 0.1})
    other = Adam(seed=0)
    other.load(saved(agent, tmp_path / "a"))
    assert torch.equal(other.layer.weight, agent.layer.weight)
    assert np.isfinite(float(other.train({"lr": 0.01})))


def test_two_members_that_go_on_from_one_checkpoint_draw_other_numbers(tmp_path: Path) -> None:
    agent = Line(seed=0)
    agent.train({"lr": 0.1})
    checkpoint = saved(agent, tmp_path / "a")
    scores = []
    for member in (0, 0, 1):
        other = Line(seed=member)
        other.load(checkpoint)
        other.assigned(member, 1)
        scores.append(other.train({"lr": 0.1}))
    assert scores[0] == scores[1] != scores[2]


def test_the_global_generators_are_left_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    Line(seed=0).train({"lr": 0.1})
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "kept must name the state of training, got \\(\\)"),
        ("layer", "kept must name the state of training, got 'layer'"),
        (("layer", "critic"), "build must set every attribute that kept names, got none called critic"),
    ],
)
def test_kept_must_name_attributes(names: Any, message: str) -> None:
    with pytest.raises(AgentError, match=message):
        type("Wrong", (Line,), {"kept": names})(seed=0)


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    class Wrong(Line):
        kept = ("layer", "world")

        def build(self) -> None:
            super().build()
            self.world = object()

    with pytest.raises(AgentError, match=r"'world': what is kept must have a state_dict.* got object"):
        Wrong(seed=0).save(tmp_path)


def test_a_checkpoint_of_another_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"a checkpoint must hold what the agent keeps, got .* where it keeps"):
        Scheduled(seed=0).load(saved(Line(seed=0), tmp_path / "a"))


class Weights(TorchAgent):
    """Trains tensors without a module, as CleanRL's SAC does with its entropy coefficient."""

    kept = ("weight", "layers", "optimizer")

    def build(self) -> None:
        self.weight = torch.zeros(1, requires_grad=True)
        self.layers = {"scale": [nn.Parameter(torch.ones(2))]}
        self.optimizer = torch.optim.SGD([self.weight, *self.layers["scale"]])

    def interval(self, config: dict[str, Any]) -> float:
        loss = ((self.weight - 3) ** 2 + (self.layers["scale"][0] - 3) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return -loss.item()


def test_tensors_that_an_optimizer_trains_are_trained_after_a_load(tmp_path: Path) -> None:
    agent, whole = Weights(seed=0), Weights(seed=0)
    for round_ in range(3):
        assert agent.train({"lr": 0.1}) == whole.train({"lr": 0.1})
        agent.load(saved(agent, tmp_path / str(round_)))
    assert torch.equal(agent.weight, whole.weight)
    assert torch.equal(agent.layers["scale"][0], whole.layers["scale"][0])
