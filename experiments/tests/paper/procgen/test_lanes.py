"""Which members of a device update one after another, and which at the same time."""

from threading import Barrier, Thread

import pytest
import torch

from popbandits_experiments.paper.procgen import lanes
from popbandits_experiments.paper.procgen.lanes import Lane, join_lane
from popbandits_experiments.paper.procgen.torch_trunk import TorchTrunk

CPU = torch.device("cpu")


class Member:
    """Joins a lane as long as it lives."""

    def __init__(self, device: torch.device = CPU) -> None:
        self.lane = join_lane(self, device)


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without members of other tests."""
    monkeypatch.setattr(lanes, "_LANES", type(lanes._LANES)(list))


def sizes(members: list[Member]) -> list[int]:
    """Members of each lane, in the order in which the lanes were opened."""
    opened: list[Lane] = []
    for member in members:
        if member.lane not in opened:
            opened.append(member.lane)
    return [sum(member.lane is lane for member in members) for lane in opened]


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [1]), (4, [4]), (5, [4, 1]), (8, [4, 4]), (9, [5, 4]), (12, [6, 6])]
)
def test_few_members_share_a_lane_and_many_two(count: int, expected: list[int]) -> None:
    assert sizes([Member() for _ in range(count)]) == expected


def test_members_that_are_gone_leave_no_lane_behind() -> None:
    former = [Member() for _ in range(12)]
    assert sizes(former) == [6, 6]
    former.clear()
    assert sizes([Member() for _ in range(4)]) == [4]


def test_a_place_that_becomes_free_is_taken_before_another_lane() -> None:
    members = [Member() for _ in range(8)]
    del members[1]
    members.append(Member())
    assert sizes(members) == [4, 4]


def test_devices_have_lanes_of_their_own_however_they_are_named() -> None:
    one, same, other = Member(torch.device("meta")), Member(torch.device("meta", 0)), Member()
    assert one.lane is not other.lane
    assert one.lane is same.lane


def test_trunks_of_different_lanes_update_at_the_same_time_and_an_error_gives_the_turn_back() -> None:
    trunks = [TorchTrunk(CPU, torch.float32) for _ in range(5)]
    assert len({id(trunk.turn) for trunk in trunks[:4]}) == 1
    meeting, met = Barrier(2, timeout=60), []

    def update(trunk: TorchTrunk) -> None:
        with trunk.turn:
            met.append(meeting.wait())

    threads = [Thread(target=update, args=(trunk,)) for trunk in (trunks[0], trunks[4])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(met) == [0, 1]
    with pytest.raises(ValueError, match="diverged"), trunks[1].turn:
        raise ValueError("diverged")
    with trunks[2].turn:
        pass
