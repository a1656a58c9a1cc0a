"""What each Triton kernel must compute, for Triton's interpreter on the CPU and for GPUs alike.

On the CPU, set TRITON_INTERPRET=1 before anything imports Triton.
"""

from typing import cast

import torch
from torch import Generator, Tensor

from popbandits.paper.procgen import network
from popbandits.paper.procgen.augmentations import AUGMENTATIONS
from popbandits.paper.procgen.fused import FusedTrunk
from popbandits.paper.procgen.fused_network import TAIL, FusedNetwork
from popbandits.paper.procgen.kernel_table import Launcher
from popbandits.paper.procgen.rollout import Rollout
from tests.paper.procgen.interpreted_network import BATCH, Case, Given, coefficients, difference, in_groups, normal

FRAMES = 3
STEPS, ENVIRONMENTS = 5, 37
PART = slice(16, ENVIRONMENTS)  # What acts are some of the environments, and their number is no multiple of 16.
MOST_ERROR = 1e-4
MOST_ERROR_OF_BFLOAT16 = 0.005


def put(device: torch.device) -> None:
    """Frames are copied exactly, to the inside of a border of zeros."""
    buffer = _put(device, None)
    inside = buffer[:, 1:65, 1:65, :3]
    assert torch.equal(inside.permute(0, 3, 1, 2).to(torch.uint8), _frames(device))
    assert float(buffer.sum(dtype=torch.float64)) == float(inside.sum(dtype=torch.float64))


def convolve_frames(device: torch.device) -> None:
    """Frames are convolved as by the plain augmentation."""
    draws = AUGMENTATIONS["random-convolution"].draw(FRAMES, Generator().manual_seed(4))
    found = _put(device, tuple(each.to(device) for each in draws))[:, 1:65, 1:65, :3].permute(0, 3, 1, 2)
    expected = 255 * AUGMENTATIONS["random-convolution"].apply(_frames(torch.device("cpu")).double() / 255, *draws)
    assert difference(found.cpu().double(), expected) < (MOST_ERROR_OF_BFLOAT16 if device.type == "cuda" else 1e-5)


def loss_gradient(device: torch.device) -> None:
    """The gradient of every parameter after the trunk, and of the features, is the loss's."""
    for rows, used in ((BATCH, (0.1, 0.2, 0.5)), (2 * BATCH, (0.1, 0.2, 0.5)), (2 * BATCH, (0.1, 0.0, 100.0))):
        errors = Case(rows, device=device).errors(coefficients(*used))
        assert max(errors) < MOST_ERROR, errors


def act(device: torch.device) -> None:
    """Actions of a part of the environments are drawn with their noise, and recorded in their row alone."""
    flat = network.initial_parameters(0)
    flat[-TAIL:] += 0.05 * normal(TAIL, seed=1)
    features = normal(PART.stop - PART.start, network.FEATURES, seed=2).relu()
    noise = Rollout(STEPS, ENVIRONMENTS, torch.device("cpu"))
    noise.begin(Generator().manual_seed(3))
    rollout = Rollout(STEPS, ENVIRONMENTS, device)
    rollout.noise.copy_(noise.noise)
    records = rollout.part(PART)
    records.row.fill_(4)
    fused = FusedNetwork(Given(), device, torch.float32)
    fused.load(flat.to(device))
    returned = fused.act(in_groups(features).to(device), flat.to(device), records).cpu()
    logits, values = network.heads(features, flat)
    actions = (logits + noise.noise[4, PART]).argmax(1)
    log_probabilities = logits.log_softmax(1).gather(1, actions[:, None])[:, 0]
    assert len(set(actions.tolist())) > 5
    assert torch.equal(returned, actions.int())
    assert torch.equal(records.actions[4].cpu(), actions)
    assert difference(records.log_probabilities[4].cpu(), log_probabilities) < MOST_ERROR
    assert difference(records.values[4].cpu(), values) < MOST_ERROR
    for recorded in (rollout.actions, rollout.log_probabilities, rollout.values):
        recorded[4, PART] = 0
        assert not recorded.any(), "a record of somebody else was written"


CASES = {check.__name__: check for check in (put, convolve_frames, loss_gradient, act)}


def _frames(device: torch.device) -> Tensor:
    """Frames with others before and after them, so that no mistake reads what is not there."""
    shape = (FRAMES + 2, 3, 64, 64)
    return torch.randint(256, shape, generator=Generator().manual_seed(2), dtype=torch.uint8).to(device)[1:-1]


def _put(device: torch.device, draws: tuple[Tensor, ...] | None) -> Tensor:
    trunk = FusedTrunk(device, cast(Launcher, None))  # It launches nothing.
    buffer = trunk.buffer(FRAMES)
    buffer = buffer if device.type == "cuda" else buffer.float()  # The interpreter has no bfloat16.
    if draws is None:
        trunk.put(buffer, _frames(device))
    else:
        trunk.put_augmented(buffer, _frames(device), "random-convolution", draws)
    return buffer
