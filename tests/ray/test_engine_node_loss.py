"""A node is lost, whatever its members were doing: no observation is lost or made twice, and nothing hangs."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, tune
from popbandits.engines import engine, ray_engine
from popbandits.history import Observation
from popbandits.views.view import View
from tests.engines.agents import Walker, space
from tests.ray.losing import loses, this_node
from tests.ray.members import Agent, Host, Maker


class FirstTold(View):
    """Says when the first member has ended its round, and waits for the others."""

    def __init__(self, folder: Path):
        self.folder = folder

    def told(self, observation: Observation) -> None:
        (self.folder / "reached").touch()


@pytest.mark.parametrize(
    ("moment", "synchronous"),
    [  # Before an actor is ready, while it trains and while it waits; the whole matrix is slow.
        ("starting", False),
        ("training", True),
        ("waiting", False),
        pytest.param("being made", True, marks=pytest.mark.slow),
        pytest.param("being made", False, marks=pytest.mark.slow),
        pytest.param("starting", True, marks=pytest.mark.slow),
        pytest.param("training", False, marks=pytest.mark.slow),
        pytest.param("saving", True, marks=pytest.mark.slow),
        pytest.param("saving", False, marks=pytest.mark.slow),
        pytest.param("waiting", True, marks=pytest.mark.slow),
    ],
)
def test_the_engine_goes_on_without_the_node_of_a_member(
    moment: str, synchronous: bool, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MAX_EARLY_DEATHS", 1)  # An actor lost with its node is none that cannot start.
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
