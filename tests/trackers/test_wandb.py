"""Weights & Biases offline: its files, read back."""

from pathlib import Path

import pytest

from popbandits import ArgumentError, History, StopWhen, WandbTracker, resume
from popbandits.trackers.tracker import tracking_id
from tests.trackers.runs import begin_or_resume
from tests.trackers.wandb_files import logged

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:wandb"),  # its own
]


def six(history: History) -> bool:
    return len(history) >= 6


@pytest.mark.parametrize("per_member", [False, True])
def test_a_stopped_run_goes_on_in_the_same_run_of_the_tracker(per_member: bool, tmp_path: Path) -> None:
    def make() -> WandbTracker:
        return WandbTracker("tests", per_member=per_member, mode="offline")

    directory = tmp_path / "run"
    begin_or_resume(directory, [make(), StopWhen(six)])
    history = resume(directory, callbacks=[make()], progress=False).history
    found, identity = logged(directory), tracking_id(directory)
    assert set(found) == ({f"{identity}-{member}" for member in range(3)} if per_member else {identity})
    for index, o in enumerate(history):
        begins = "" if per_member else f"member_{o.member}/"
        steps = found[f"{identity}-{o.member}" if per_member else identity]
        (values,) = [values for step, values in steps if step == (o.round if per_member else index)]
        assert values[f"{begins}round"] == o.round
        assert values[f"{begins}score"] == o.score
        assert values[f"{begins}steps"] == 100 * (o.round + 1)
        assert values[f"{begins}metrics/norm"] == o.metrics["norm"]
        assert values[f"{begins}hyperparameters/lr"] == o.config["lr"]
        assert values[f"{begins}hyperparameters/optimizer/text"] == o.config["optimizer"]
        assert values[f"{begins}hyperparameters/optimizer"] == ["sgd", "adam"].index(o.config["optimizer"])
        parent = (values.get(f"{begins}lineage/parent_member"), values.get(f"{begins}lineage/parent_round"))
        assert parent == (o.parent or (None, None))
    assert sum(map(len, found.values())) == len(history) == 12


def test_arguments_that_are_the_tracker_s_own_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"settings must leave .* to the tracker, got \['id', 'resume'\]"):
        WandbTracker(id="mine", resume="must")
