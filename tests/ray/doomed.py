"""Trainables that stop for ever at a moment that a test chooses.

They are apart from the test since every trial's process imports the module of its trainable, and nothing of popbandits
or pytest is needed there.
"""

from pathlib import Path
from typing import Any

from ray import tune

from tests.ray.losing import stop_for_ever, this_node, wait_for
from tests.ray.trainables import Climber, climb

INTERVAL = 2


class Doomed(Climber):
    """Stops for ever at one moment of its life, on any node but the head. After its first interval it waits until that
    node is lost: on the head always, elsewhere once the loss has begun."""

    def setup(self, config: dict[str, Any]) -> None:
        self.come_to("starting", config)
        super().setup(config)

    def reset_config(self, config: dict[str, Any]) -> bool:
        self.come_to("being used again", config)
        return super().reset_config(config)

    def step(self) -> dict[str, Any]:
        self.come_to("training", self.config)
        folder = Path(self.config["folder"])
        # An actor there lives a little longer than its node, long enough to train whatever is left.
        if self.iteration >= INTERVAL and (this_node() == self.config["head"] or (folder / "reached").exists()):
            wait_for(folder / "lost")
        return {**super().step(), "node": this_node()}

    def save_checkpoint(self, folder: str) -> dict[str, Any]:
        self.come_to("saving", self.config)
        return super().save_checkpoint(folder)

    def load_checkpoint(self, saved: dict[str, Any]) -> None:
        self.come_to("loading", self.config)
        super().load_checkpoint(saved)

    def come_to(self, moment: str, config: dict[str, Any]) -> None:
        if moment == config["moment"] and this_node() != config["head"]:
            stop_for_ever(Path(config["folder"], "reached"))


def doomed(config: dict[str, Any]) -> None:
    """The same as a function, that can only be met in training."""
    if tune.get_checkpoint() and this_node() != config["head"]:
        stop_for_ever(Path(config["folder"], "reached"))
    elif tune.get_checkpoint():
        wait_for(Path(config["folder"], "lost"))
    climb(config)
