"""Runs for the tests of reports: small, and with everything in them that can be shown."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

from popbandits import PB2Fuse, tune
from popbandits.agent import Outcome

HOSTILE = "</script><script>document.title='owned'</script><!-- \u2028 <img src=x onerror=\"document.title='owned'\">"


def space(label: str = "rotate") -> ConfigurationSpace:
    """Every kind of hyperparameter."""
    made = ConfigurationSpace(
        {
            "lr": Float("lr", (1e-5, 1e-1), log=True),
            "epochs": Integer("epochs", (1, 8)),
            "augmentation": Categorical("augmentation", ["crop", label, None]),
            "width": Categorical("width", [16, 32, 64], ordered=True),
            "momentum": Float("momentum", (0.0, 1.0)),
        }
    )
    made.add(EqualsCondition(made["momentum"], made["augmentation"], "crop"))
    return made


class Climber:
    """Gains by a known rule: most with `crop`, and the more the nearer lr is to 1e-3."""

    def __init__(self, seed: int):
        self.rng, self.height = np.random.default_rng(seed), 0.0

    def train(self, config: dict[str, Any]) -> Outcome:
        gain = np.exp(-((np.log10(config["lr"]) + 3) ** 2)) * (2.0 if config["augmentation"] == "crop" else 1.0)
        self.height += float(gain) + 0.05 * self.rng.normal()
        return Outcome(self.height, metrics={"test_score": self.height / 2, "loss": {"policy": 0.5}})

    def save(self, directory: Path) -> None:
        (directory / "state.json").write_text(json.dumps([self.height, self.rng.bit_generator.state]))

    def load(self, directory: Path) -> None:
        self.height, self.rng.bit_generator.state = json.loads((directory / "state.json").read_text())


class Clumsy(Climber):
    """Fails where epochs are many, and says so in words that a page must not take for its own."""

    def train(self, config: dict[str, Any]) -> Outcome:
        if config["epochs"] >= 7:
            raise ValueError(f"it fell {HOSTILE}")
        return super().train(config)


def play(directory: Path, agent: Any = Climber, **options: Any) -> Path:
    """A run in this folder, of a method with arms and a model to show."""
    given = {"space": space(), "method": PB2Fuse(), "population": 4, "rounds": 12} | options
    tune(agent, directory=directory, progress=False, **given)
    return directory
