"""Trainables whose score says what they were trained with, and from whose weights."""

import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import tune

from tests.ray.losing import wait_for

PARAM_SPACE = {"lr": tune.loguniform(1e-4, 1e-1), "net": {"act": tune.choice(["relu", "tanh", "gelu"])}, "width": 64}


def gain(config: Mapping[str, Any]) -> float:
    """What a step with this configuration adds to the score."""
    return 10.0 * config["lr"] + {"relu": 1.0, "tanh": 2.0, "gelu": 3.0}[config["net"]["act"]] / 10


def climb(config: dict[str, Any]) -> None:
    """A function that climbs, and reports a checkpoint with every step."""
    score = 0.0
    if checkpoint := tune.get_checkpoint():
        with checkpoint.as_directory() as folder:
            score = json.loads(Path(folder, "state.json").read_text())
    while True:
        score += gain(config)
        assert config["width"] == 64
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "state.json").write_text(json.dumps(score))
            tune.report({"score": score}, checkpoint=tune.Checkpoint.from_directory(folder))


class Climber(tune.Trainable):
    """The same as a class, whose actor can be used again."""

    def setup(self, config: dict[str, Any]) -> None:
        self.score = 0.0

    def step(self) -> dict[str, Any]:
        self.score += gain(self.config)
        return {"score": self.score, "applied": {"lr": self.config["lr"]}}

    def save_checkpoint(self, folder: str) -> dict[str, Any]:
        return {"score": self.score}

    def load_checkpoint(self, saved: dict[str, Any]) -> None:
        self.score = saved["score"]

    def reset_config(self, config: dict[str, Any]) -> bool:
        self.setup(config)
        return True


class Stubborn(Climber):
    """Goes on with the learning rate of its checkpoint."""

    def setup(self, config: dict[str, Any]) -> None:
        super().setup(config)
        self.lr = config["lr"]

    def step(self) -> dict[str, Any]:
        return {**super().step(), "applied": {"lr": self.lr}}

    def save_checkpoint(self, folder: str) -> dict[str, Any]:
        return {"score": self.score, "lr": self.lr}

    def load_checkpoint(self, saved: dict[str, Any]) -> None:
        self.score, self.lr = saved["score"], saved["lr"]


class Mortal(Climber):
    """Its process dies once, in the third step of whoever comes to it first."""

    def step(self) -> dict[str, Any]:
        if self.iteration == 2:
            try:
                Path(self.config["grave"]).touch(exist_ok=False)
                os._exit(1)
            except FileExistsError:
                pass
        return super().step()


class Together(Climber):
    """Takes a step when everybody can. Of four, the one that gains least is the last to end its first interval of two
    steps, so that it copies another."""

    def step(self) -> dict[str, Any]:
        everybody = Path(self.config["everybody"])
        wait_for(everybody)
        if self.iteration == 1:
            own = gain(self.config)
            (everybody.parent / f"first {own!r} {self.trial_id}").touch()
            while len(first := list(everybody.parent.glob("first *"))) < 4:
                time.sleep(0.05)
            while (
                own == min(float(path.name.split()[1]) for path in first)
                and len(list(everybody.parent.glob("second *"))) < 3
            ):
                time.sleep(0.05)
        elif self.iteration > 1:
            (everybody.parent / f"second {self.trial_id}").touch()
        return super().step()


class Fresh(Together):
    """Has no `reset_config` of its own, so that every new configuration needs a new actor."""

    reset_config = tune.Trainable.reset_config
