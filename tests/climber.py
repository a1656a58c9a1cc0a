"""An agent in a file of its own: the code of a run is read each time that it starts or resumes."""

from pathlib import Path
from typing import Any

from popbandits.agent import Outcome


class Climber:
    """Climbs, and falls now and then."""

    def __init__(self, seed: int):
        self.height = seed % 1000 / 1000

    def train(self, config: dict[str, Any]) -> Outcome:
        if config["step"] > 0.75:
            raise ValueError("too far")
        self.height += config["step"] * (2 if config["way"] == "up" else -1)
        return Outcome(self.height, steps=10, metrics={"loss": {"policy": 0.5}})

    def save(self, directory: Path) -> None:
        (directory / "height").write_text(repr(self.height))

    def load(self, directory: Path) -> None:
        self.height = float((directory / "height").read_text())
