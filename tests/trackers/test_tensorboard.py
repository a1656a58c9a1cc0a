"""Event files, read back with TensorBoard's own reader."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from popbandits import ArgumentError, History, TensorBoardTracker
from tests.trackers.runs import begin_or_resume, curves, killed_twice


def read(folder: Path) -> Any:
    return EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0}).Reload()


def in_order(found: list[Any], value: Callable[[Any], Any]) -> list[Any]:
    """Sort by step: TensorBoard reads the files of one second in any order."""
    return sorted((each.step, value(each)) for each in found)


def scalars(events: Any, tag: str) -> list[tuple[int, float]]:
    return in_order(events.Scalars(tag), lambda each: each.value)


def agree(events: Any, begins: str, member: int, history: History) -> None:
    mine = [o for o in history if o.member == member]
    assert [step for step, _ in scalars(events, f"{begins}round")] == [o.round for o in mine]
    for tag, values in curves(mine).items():
        assert [value for _, value in scalars(events, begins + tag)] == pytest.approx(values), tag
    parents = [(o.round, o.parent) for o in mine if o.parent is not None]
    found = zip(
        scalars(events, f"{begins}lineage/parent_member"), scalars(events, f"{begins}lineage/parent_round"), strict=True
    )
    assert [(step, (int(m), int(r))) for (step, m), (_, r) in found] == parents
    texts = events.Tensors(f"{begins}hyperparameters/optimizer/text")
    labels = [label for _, label in in_order(texts, lambda each: each.tensor_proto.string_val[0].decode())]
    assert labels == [o.config["optimizer"] for o in mine]


@pytest.mark.parametrize("per_member", [False, True])
def test_a_run_that_is_killed_twice_has_every_observation_once(per_member: bool, tmp_path: Path) -> None:
    history = killed_twice(tmp_path / "run", lambda: TensorBoardTracker(per_member=per_member))
    folder = tmp_path / "run" / "tensorboard"
    assert len(list(folder.rglob("events.*"))) >= 3  # A file for each process.
    for member in range(3):
        if per_member:
            agree(read(folder / f"member_{member}"), "", member, history)
        else:
            agree(read(folder), f"member_{member}/", member, history)


def test_steps_and_seconds_can_be_the_axis(tmp_path: Path) -> None:
    trackers = [TensorBoardTracker(tmp_path / axis, axis=axis) for axis in ("steps", "seconds")]  # type: ignore[arg-type]
    begin_or_resume(tmp_path / "run", trackers)
    events = read(tmp_path / "steps" / "run")
    assert [step for step, _ in scalars(events, "member_1/score")] == [100, 200, 300, 400]
    times = [each.wall_time for each in events.Scalars("member_1/score")]
    assert times == sorted(times)
    seconds = scalars(read(tmp_path / "seconds" / "run"), "member_1/seconds")
    assert [value for _, value in seconds] == sorted(value for _, value in seconds)
    assert [step for step, _ in seconds] == [int(value) for _, value in seconds]


def test_an_axis_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"axis must be .*, got 'step'"):
        TensorBoardTracker(axis="step")  # type: ignore[arg-type]
