"""A tracker of one's own, trackers without their library, and the id that they share."""

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from popbandits import MissingExtraError, MLflowTracker, Population, StopWhen, TensorBoardTracker, Tracker, WandbTracker
from popbandits.trackers.tracker import Entry, tracking_id
from tests.trackers.runs import begin_or_resume


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


class Notes(Tracker):
    """Keeps entries in a list that outlives it."""

    def __init__(self, kept: list[Entry]):
        super().__init__()
        self.kept = kept

    def begin(self, population: Population, directory: Path) -> Mapping[int, int]:
        return Counter(entry.member for entry in self.kept)

    def write(self, entry: Entry) -> None:
        self.kept.append(entry)


def test_a_tracker_of_one_s_own_is_given_every_observation_once(tmp_path: Path) -> None:
    kept: list[Entry] = []
    begin_or_resume(tmp_path / "run", [Notes(kept), StopWhen(lambda history: len(history) >= 3)])
    begin_or_resume(tmp_path / "run", [StopWhen(lambda history: len(history) >= 6)])  # without it
    history = begin_or_resume(tmp_path / "run", [Notes(kept)])
    assert [entry.index for entry in kept] == list(range(12))
    assert [entry.observation for entry in kept] == list(history)
    assert [entry.numbers["steps"] for entry in kept] == [100.0 * (o.round + 1) for o in history]
    spent = [entry.numbers["seconds"] for entry in kept if entry.member == 2]
    assert spent == pytest.approx(
        [sum(o.seconds or 0 for o in history if o.member == 2 and o.round <= r) for r in range(4)]
    )
