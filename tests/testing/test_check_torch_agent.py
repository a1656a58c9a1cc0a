"""check_agent on PyTorch: its optimizers, whose state_dict also holds hyperparameters, and its files."""

import re
from pathlib import Path
from typing import Any

import ConfigSpace as cs
import pytest

from popbandits.testing import AgentRule as Rule
from popbandits.testing import check_agent

torch = pytest.importorskip("torch")

from popbandits.adapters.torch_agent import TorchAgent  # noqa: E402 (needs torch)


class Sound:
    """Regression, with an optimizer that may change its kind between intervals."""

    def __init__(self, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.net = torch.nn.Linear(4, 1)
        with torch.no_grad():
            for weights in self.net.parameters():
                weights.normal_(generator=self.random)
        self.kind: str | None = None
        self.state: dict[str, Any] = {}

    def train(self, config: dict[str, Any]) -> float:
        optimizer = self.optimizer(config)
        for _ in range(5):
            x = torch.randn(8, 4, generator=self.random)
            loss = (self.net(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.kind, self.state = config["optimizer"], optimizer.state_dict()
        return -loss.item()

    def optimizer(self, config: dict[str, Any]) -> Any:
        optimizer = self.new_optimizer(config)
        if self.kind == config["optimizer"]:
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict(self.state | {"param_groups": groups})
        return optimizer

    def new_optimizer(self, config: dict[str, Any]) -> Any:
        if config["optimizer"] == "adam":
            return torch.optim.Adam(self.net.parameters(), config["lr"], betas=(config["beta"], 0.99))
        return torch.optim.SGD(self.net.parameters(), config["lr"], momentum=config["momentum"])

    def save(self, directory: Path) -> None:
        state = {"net": self.net.state_dict(), "kind": self.kind, "state": self.state}
        torch.save(state | {"random": self.random.get_state()}, directory / "agent.pt")

    def load(self, directory: Path) -> None:
        saved = torch.load(directory / "agent.pt", weights_only=True)
        self.net.load_state_dict(saved["net"])
        self.kind, self.state = saved["kind"], saved["state"]
        self.random.set_state(saved["random"])


class RestoresTheGroupsToo(Sound):
    def optimizer(self, config: dict[str, Any]) -> Any:
        optimizer = self.new_optimizer(config)
        if self.kind == config["optimizer"]:
            optimizer.load_state_dict(self.state)
        return optimizer


class ForgetsTheOptimizer(Sound):
    def load(self, directory: Path) -> None:
        super().load(directory)
        self.kind = None


class ForgetsTheGenerator(Sound):
    def load(self, directory: Path) -> None:
        before = self.random.get_state()
        super().load(directory)
        self.random.set_state(before)


class ScoresNothingYet:
    """To mix in: only the files show a difference."""

    def train(self, config: dict[str, Any]) -> float:
        super().train(config)  # type: ignore[misc]
        return 0.0


def space() -> cs.ConfigurationSpace:
    made = cs.ConfigurationSpace(
        {
            "lr": cs.Float("lr", (1e-3, 1e-1), log=True),
            "optimizer": ["adam", "sgd"],
            "beta": (0.5, 0.99),
            "momentum": (0.1, 0.9),
        }
    )
    made.add(
        cs.EqualsCondition(made["beta"], made["optimizer"], "adam"),
        cs.EqualsCondition(made["momentum"], made["optimizer"], "sgd"),
    )
    return made


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize(
    ("agent", "status", "rules", "words"),
    [
        (Sound, "problem", [], ""),
        (RestoresTheGroupsToo, "problem", [Rule.HELD], "lr, (beta|momentum): another value must show"),
        (ForgetsTheOptimizer, "problem", [Rule.COMPLETE], "save the optimizer's state"),
        (ForgetsTheGenerator, "warning", [Rule.ALIKE], "load does not restore what is random"),
    ],
)
def test_faults_of_torch_agents_are_found(agent: type, status: str, rules: list[Rule], words: str, tie: bool) -> None:
    report = check_agent(type("Tied", (ScoresNothingYet, agent), {}) if tie else agent, space())
    told = [finding for finding in report.findings if finding.status != "ok"]
    assert [(finding.rule, finding.status) for finding in told] == [(rule, status) for rule in rules], str(report)
    assert all(re.search(words, finding.text) for finding in told), str(report)


class Drops(Sound):
    """Uses dropout, which draws from PyTorch's global generator."""

    def train(self, config: dict[str, Any]) -> float:
        with torch.no_grad():
            self.net.weight.copy_(torch.nn.functional.dropout(self.net.weight, 0.1))
        return super().train(config)


class Line(TorchAgent):
    """Draws from the global generators, whose states it restores afterwards."""

    kept = ("layer", "optimizer")

    def build(self) -> None:
        self.layer = torch.nn.Linear(1, 1)
        self.optimizer = torch.optim.SGD(self.layer.parameters())

    def interval(self, config: dict[str, Any]) -> float:
        self.optimizer.zero_grad()
        loss = (self.layer(torch.randn(8, 1)) - 1).square().mean()
        loss.backward()
        self.optimizer.step()
        return -loss.item()


def test_generators_of_pytorch_that_threads_would_share_are_named() -> None:
    for agent, used in (
        (Drops, "make_agent uses the global generator of torch"),
        (Line, "train uses the global generator of random, numpy.random and torch"),
    ):
        report = check_agent(agent, {"lr": (0.01, 0.1)} if agent is Line else space(), engine="threads", each=False)
        (finding,) = (each for each in report.findings if each.rule == Rule.SHARED)
        assert finding.status == "warning", agent
        assert finding.text.startswith(used), agent
