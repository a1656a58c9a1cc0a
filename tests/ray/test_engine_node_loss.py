"""A node is lost, whatever its members were doing: no observation is lost or made twice, and nothing hangs."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, tune
from popbandits.engines import ray_engine
from popbandits.history import Observation
from popbandits.views.view import View
from tests.engines.agents import Walker, space
from tests.ray.losing import loses, stop_for_ever, this_node, wait_for


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
        agent: Any = self._bench._make_agent
        if this_node() != agent.keywords["head"]:
            stop_for_ever(agent.keywords["folder"] / "reached")
        return super().ready(marker)


class FirstTold(View):
    """Says when the first member has ended its round, and waits for the others."""

    def __init__(self, folder: Path):
        self.folder = folder

    def told(self, observation: Observation) -> None:
        (self.folder / "reached").touch()


@pytest.mark.parametrize(
    ("moment", "synchronous"),
    [  # Every moment once, and training both ways; the whole matrix is slow.
        ("being made", True),
        ("starting", False),
        ("training", True),
        ("training", False),
        ("saving", True),
        ("waiting", False),
        pytest.param("being made", False, marks=pytest.mark.slow),
        pytest.param("starting", True, marks=pytest.mark.slow),
        pytest.param("saving", False, marks=pytest.mark.slow),
        pytest.param("waiting", True, marks=pytest.mark.slow),
    ],
)
def test_the_engine_goes_on_without_the_node_of_a_member(
    moment: str, synchronous: bool, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "STARTS", 1)  # An actor that is lost with its node is none that cannot start.
    if moment == "starting":
        monkeypatch.setattr(ray_engine, "Host", Host)
    settings = {"method": PBT(), "rounds": 3, "synchronous": synchronous}
    # There are three processors. Only if there is no fourth member, somebody can have nothing to do but wait.
    settings |= {"population": 3 if moment == "waiting" else 4}
    expected = tune(Walker, space(), directory=tmp_path / "in-process", progress=False, **settings).history
    make = partial(Agent, moment=moment, folder=tmp_path, head=this_node())
    with loses(cluster, tmp_path):
        result = tune(
            Maker(tmp_path, this_node()) if moment == "being made" else make,
            space(),
            directory=tmp_path / "ray",
            engine="ray",
            progress=FirstTold(tmp_path) if moment == "waiting" else False,
            **settings,
        )
    assert result.done
    assert sorted(o.key for o in result.history) == sorted(o.key for o in expected)
    assert not any(o.failed for o in result.history)
    if synchronous:  # else decisions depend on who is ready when
        assert result.history == expected
