"""The table of the winning schedule."""

import io

from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float
from rich.console import Console

from popbandits import History, Observation
from popbandits.reports.schedule import print_schedule


def test_the_winning_lineage_is_shown_with_what_changed() -> None:
    space = ConfigurationSpace(
        {
            "lr": Float("lr", (1e-5, 1.0), log=True),
            "optimizer": Categorical("optimizer", ["sgd", "adam"]),
            "momentum": Float("momentum", (0.0, 1.0)),
        }
    )
    space.add(EqualsCondition(space["momentum"], space["optimizer"], "sgd"))
    sgd, adam = {"lr": 0.123456, "optimizer": "sgd", "momentum": 0.9}, {"lr": 0.123456, "optimizer": "adam"}
    observations = [
        Observation(0, 0, adam, score=1.0),
        Observation(1, 0, sgd, score=2.0),
        Observation(0, 1, sgd, parent=(1, 0), score=3.5),
        Observation(1, 1, sgd, parent=(1, 0), score=3.0),
        Observation(0, 2, adam, parent=(0, 1), score=5.0),
    ]
    file = io.StringIO()
    print_schedule(
        History(space, observations), console=Console(file=file, width=20)
    )  # Narrow, and nothing is cut off.
    header, *rows = file.getvalue().splitlines()
    assert header.split() == ["round", "member", "score", "lr", "optimizer", "momentum"]
    assert [row.split() for row in rows] == [
        ["0", "1", "2", "0.123", "sgd", "0.9"],
        ["1", "0", "3.5"],
        ["2", "0", "5", "adam", "–"],
    ]
