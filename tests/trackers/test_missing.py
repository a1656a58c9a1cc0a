"""Trackers without their library, and what all of them share."""

import sys
from pathlib import Path

import pytest

from popbandits import MissingExtraError, MLflowTracker, TensorBoardTracker, WandbTracker
from popbandits.trackers.tracker import tracking_id


@pytest.mark.parametrize(
    ("make", "name"), [(TensorBoardTracker, "tensorboard"), (WandbTracker, "wandb"), (MLflowTracker, "mlflow")]
)
def test_a_tracker_without_its_library_says_what_to_install(
    make: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [each for each in sys.modules if each.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"{make.__name__} needs {name}; pip install 'popbandits\[{name}\]'"):
        make()


def test_the_id_of_a_run_stays_the_same(tmp_path: Path) -> None:
    first = tracking_id(tmp_path)
    assert tracking_id(tmp_path) == first
    (tmp_path / "other").mkdir()
    assert tracking_id(tmp_path / "other") != first
