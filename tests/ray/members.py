"""Members of runs on Ray, apart from what the tests need to import: every actor imports the module of its agent."""

import json
import time
import uuid
from pathlib import Path
from typing import Any

import ray

from popbandits.engines import ray_engine
from tests.engines.agents import Faulty, Walker
from tests.ray.losing import stop_for_ever, this_node, wait_for


class Agent(Walker):
    """Stops for ever at one moment of its life, on any node but the head; there it stops until that has happened."""

    def __init__(self, seed: int, moment: str, folder: Path, head: str):
        super().__init__(seed)
        self.moment, self.folder, self.head = moment, folder, head

    def train(self, config: dict[str, Any]) -> Any:
        self.come_to("training")
        if this_node() == self.head:
            wait_for(self.folder / "lost")
        elif self.moment == "waiting" and (self.folder / "reached").exists():
            stop_for_ever(self.folder / "reached")  # else it could train everybody to the end before it is lost
        return super().train(config)

    def save(self, directory: Path) -> None:
        super().save(directory)
        self.come_to("saving")

    def come_to(self, moment: str) -> None:
        if moment == self.moment and this_node() != self.head:
            stop_for_ever(self.folder / "reached")


class Maker:
    """Makes agents, where it comes to; an actor on any node but the head never gets it."""

    def __init__(self, folder: Path, head: str):
        self.folder, self.head = folder, head

    def __call__(self, seed: int) -> Agent:
        return Agent(seed, "being made", self.folder, self.head)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        if this_node() != self.head:
            stop_for_ever(self.folder / "reached")


class Host(ray_engine.Host):
    """An actor that on any node but the head never gets to say that it is ready."""

    def ready(self, marker: Path) -> tuple[str, bool]:
        agent: Any = self._pool._make_agent
        if this_node() != agent.keywords["head"]:
            stop_for_ever(agent.keywords["folder"] / "reached")
        return super().ready(marker)


class Fatal(Faulty):
    ways = ("hang", "die")


class Placed(Walker):
    """Writes down what it was given, and trains when all four members have got theirs."""

    def __init__(self, seed: int, folder: Path):
        super().__init__(seed)
        self.folder = folder

    def train(self, config: dict[str, Any]) -> Any:
        context = ray.get_runtime_context()
        given = [context.get_assigned_resources(), context.get_accelerator_ids()["GPU"], this_node()]
        (self.folder / str(uuid.uuid4())).write_text(json.dumps(given))
        while len(list(self.folder.iterdir())) < 4:
            time.sleep(0.05)
        return super().train(config)
