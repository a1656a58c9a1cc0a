"""The fused trunk against PyTorch's, by the CPU's emulation of its kernels."""

import gc
from collections import defaultdict
from typing import Any

import pytest
import torch
from torch import Tensor

from experiments.tests.paper.procgen.cuda.kernel_cases import frames, parameters, put
from experiments.tests.paper.procgen.cuda.on_cpu import KERNELS, compile_kernels, needs_compiler
from experiments.tests.paper.procgen.cuda.trunk_errors import check_acting, check_trunk
from popbandits.errors import ArgumentError
from popbandits_experiments.paper.procgen import lanes, network
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS
from popbandits_experiments.paper.procgen.fused import FusedTrunk
from popbandits_experiments.paper.procgen.fused_network import FusedNetwork
from popbandits_experiments.paper.procgen.kernel_table import AllKernels
from popbandits_experiments.paper.procgen.learner import PlainTrunk
from popbandits_experiments.paper.procgen.rollout import Rollout

pytestmark = needs_compiler

CPU = torch.device("cpu")

emulated = pytest.mark.slow  # It takes every kernel; cuda/test_kernels.py always tries those of updates.


@pytest.fixture(scope="module")
def launcher() -> AllKernels:
    return AllKernels(lambda source: compile_kernels(KERNELS / source))


@pytest.fixture
def trunk(launcher: AllKernels) -> FusedTrunk:
    return FusedTrunk(CPU, launcher)


def seen(trunk: FusedTrunk, images: int = 4) -> Tensor:
    buffer = trunk.buffer(images)
    put(buffer, frames(images))
    return buffer


@emulated
def test_features_and_every_gradient_are_those_of_the_plain_trunk(trunk: FusedTrunk) -> None:
    check_trunk(trunk, CPU)


def test_frames_of_a_rollout_are_put_as_by_the_plain_trunk() -> None:
    trunk, plain = FusedTrunk(CPU, compile_kernels(KERNELS / "frames.cu")), PlainTrunk(dtype=torch.bfloat16)
    rollout, rows = frames(7), torch.tensor([5, 0, 0, 3])
    buffer, expected = trunk.buffer(4), plain.buffer(4)

    def found() -> Tensor:
        assert float(buffer.double().sum()) == float(buffer[:, 1:65, 1:65, :3].double().sum())  # A border of zeros.
        return buffer[:, 1:65, 1:65, :3].permute(0, 3, 1, 2)

    trunk.put(buffer, rollout, rows)
    plain.put(expected, rollout, rows)
    assert torch.equal(found(), expected)
    draws = AUGMENTATIONS["crop"].draw(4, torch.Generator().manual_seed(3))
    trunk.put_augmented(buffer, rollout, rows, "crop", draws)
    plain.put_augmented(expected, rollout, rows, "crop", draws)
    assert torch.equal(found(), expected)


def act(trunk: FusedTrunk, flat: Tensor, images: int = 3) -> Rollout:
    rollout, acting = Rollout(1, images, CPU), FusedNetwork(trunk, CPU)
    rollout.begin(torch.Generator().manual_seed(3))
    acting.load(flat)
    acting.act(frames(images), flat, rollout)
    return rollout


@emulated
def test_acting_has_the_features_of_updates(trunk: FusedTrunk) -> None:
    check_acting(trunk, CPU)


@emulated
def test_a_diverged_network_draws_actions_that_exist_and_is_found_out(trunk: FusedTrunk) -> None:
    flat = parameters()
    _, _, policy, _, value, _ = network.split(flat)[-network.HEAD_TENSORS :]
    policy.fill_(torch.nan)
    value.fill_(torch.nan)
    acted = act(trunk, flat, images=1)
    assert acted.actions[0].tolist() == [0]
    assert acted.log_probabilities[0].isnan().all()
    assert acted.values[0].isnan().all()


class Idle:
    """Launches nothing: where activations are kept does not depend on what is in them."""

    def launch(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("images", [0, 6])
def test_an_update_takes_a_multiple_of_four_images(images: int) -> None:
    trunk = FusedTrunk(CPU, Idle())
    with pytest.raises(ArgumentError, match=f"images of an update must be a multiple of 4, got {images}"):
        trunk.forward(trunk.buffer(images), parameters())


@emulated
def test_parameters_that_change_are_used_once_they_are_loaded(trunk: FusedTrunk, launcher: AllKernels) -> None:
    buffer, flat, other = seen(trunk), parameters(), FusedTrunk(CPU, launcher)
    trunk.load(flat)
    before, acted = trunk.forward(buffer, flat).features.clone(), act(trunk, flat, images=1)
    flat[flat.abs() > 0.05] *= 2
    trunk.load(flat)
    after, acted_after = trunk.forward(buffer, flat).features.clone(), act(trunk, flat, images=1)
    assert not torch.equal(after, before)
    assert not torch.equal(acted_after.values, acted.values)
    other.load(flat)
    assert torch.equal(other.forward(buffer, flat).features, after)
    assert torch.equal(act(other, flat, images=1).values, acted_after.values)


@pytest.fixture
def empty_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_LANES", defaultdict(list))
    monkeypatch.setattr(lanes, "MEMBERS_OF_A_LANE", 1)
    monkeypatch.setattr(lanes, "LANES", 2)


@pytest.mark.usefixtures("empty_lanes")
def test_trunks_of_a_lane_share_activations_and_those_of_another_have_their_own() -> None:
    flat = parameters()
    first, other, second = (FusedTrunk(CPU, Idle()) for _ in range(3))
    workspace = first.forward(seen(first), flat).workspace
    assert first.turn is second.turn is not other.turn
    assert second.forward(seen(second), flat).workspace is workspace
    assert first.forward(seen(first), flat).workspace is workspace
    assert first.forward(seen(first, 8), flat).workspace is not workspace
    assert other.forward(seen(other), flat).workspace is not workspace


@pytest.mark.usefixtures("empty_lanes")
def test_activations_live_as_long_as_a_trunk_that_uses_them_and_its_place_is_then_free() -> None:
    flat = parameters()
    first, other, second = (FusedTrunk(CPU, Idle()) for _ in range(3))
    workspaces = first._lane.workspaces
    for each, images in ((first, 4), (first, 8), (second, 4)):
        each.forward(seen(each, images), flat)
    del first, each
    gc.collect()
    assert list(workspaces) == [4]
    del second
    gc.collect()
    assert not workspaces
    assert FusedTrunk(CPU, Idle()).turn is not other.turn
