"""Checks of the fused trunk as a whole, for the CPU's emulation and for GPUs alike.

Rounding changes which number is rectified and which wins a pooling window, and so gradients, by much more than it
changes features. PyTorch's own trunk in bfloat16 says how much is usual. A second reference takes these choices from
the fused trunk's forward pass: what is then left are the rounded gradients.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import conv2d, linear
from torch.overrides import TorchFunctionMode

from experiments.tests.paper.procgen.cuda.kernel_cases import frames, from_planes, parameters, put
from popbandits_experiments.paper.procgen import network
from popbandits_experiments.paper.procgen.fused import FusedTrunk, Saved, Workspace
from popbandits_experiments.paper.procgen.fused_network import FusedNetwork
from popbandits_experiments.paper.procgen.packing import in_kernel_order
from popbandits_experiments.paper.procgen.rollout import Rollout
from popbandits_experiments.paper.procgen.torch_trunk import TorchTrunk

IMAGES = 4
SEEDS = (2, 3, 4, 5)  # Of frames: one rectified number more or less changes much in a single draw.
MORE_THAN_PYTORCH = 1.5
MOST_ERROR_BY_ROUNDED_GRADIENTS = 0.01
MOST_ERROR_OF_HEADS = 1e-4


@dataclass(frozen=True)
class Result:
    """Features in the network's order, and the gradients of the trunk's 30 tensors."""

    features: Tensor
    gradients: list[Tensor]

    def errors(self, exact: "Result") -> list[float]:
        """Return the relative error of the features, and of each gradient."""
        pairs = zip([self.features, *self.gradients], [exact.features, *exact.gradients], strict=True)
        return [float((ours.double() - theirs).norm() / theirs.norm()) for ours, theirs in pairs]


def check_trunk(trunk: FusedTrunk, device: torch.device) -> None:
    """Compare features and gradients with exact ones."""
    flat, buffer = parameters().to(device), trunk.buffer(IMAGES)
    trunk.load(flat)
    _poison(trunk.forward(buffer, flat).workspace)
    to_features = in_kernel_order(_to_features(device)).bfloat16()
    squares = torch.zeros(2, 31)
    for seed in SEEDS:
        images = frames(IMAGES, seed).to(device)
        put(buffer, images)
        saved = trunk.forward(buffer, flat)
        gradient = torch.full_like(flat, torch.nan)
        trunk.backward(saved, to_features, gradient[: network.TRUNK_SIZE])
        result = Result(_in_network_order(saved.features), _trunk_parts(gradient))
        for index, error in enumerate(result.errors(exact_backward(saved, images))):
            assert error < MOST_ERROR_BY_ROUNDED_GRADIENTS, f"{index}: {error:.4f}"
        reference = exact(images)
        squares += torch.tensor([each.errors(reference) for each in (result, bfloat16(images))]) ** 2
    errors, usual = squares.sqrt()
    assert (errors < MORE_THAN_PYTORCH * usual).all(), errors / usual


def check_acting(trunk: FusedTrunk, device: torch.device) -> None:
    """Compare what a network records with what plain heads make of the features that an update has."""
    flat, buffer, fused = parameters().to(device), trunk.buffer(IMAGES), FusedNetwork(trunk, device)
    tensors = network.split(flat)[-network.HEAD_TENSORS :]
    tensors[2].mul_(100)  # A policy with preferences.
    fused.load(flat)
    hidden, hidden_bias, policy, policy_bias, value, value_bias = (each.double() for each in tensors)
    for seed in SEEDS:
        images, rollout = frames(IMAGES, seed).to(device), Rollout(1, IMAGES, device)
        rollout.begin(Generator(device).manual_seed(seed))
        actions = fused.act(images, flat, rollout)
        put(buffer, images)
        features = _in_network_order(trunk.forward(buffer, flat).features).double()
        product = linear(features, hidden.bfloat16().double()).bfloat16().double()
        x = (product + hidden_bias).relu()
        logits, values = linear(x, policy, policy_bias), linear(x, value, value_bias)[:, 0]
        log_policies = logits.log_softmax(1).gather(1, actions[:, None].long())[:, 0]
        # A product in the middle between two numbers of bfloat16 may be rounded to either, at a few units of many.
        size = MOST_ERROR_OF_HEADS * x.norm(dim=1)
        assert ((rollout.values[0] - values).abs() < size * value.norm()).all()
        assert ((rollout.log_probabilities[0] - log_policies).abs() < size * policy.norm()).all()
        assert torch.equal(rollout.actions[0], actions.long())


def _poison(workspace: Workspace) -> None:
    workspace.shares.fill_(torch.nan)
    for section in workspace.sections:
        for tensor in vars(section).values():
            tensor.fill_(torch.nan if tensor.is_floating_point() else 255)


class ByFloat32(TorchFunctionMode):
    """Convolve in float32 and round the result, and so its gradients: on CPUs PyTorch's own bfloat16 is slow."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not conv2d:
            return func(*args, **(kwargs or {}))
        return func(*(tensor.float() for tensor in args), **kwargs).to(args[0].dtype)


def bfloat16(images: Tensor) -> Result:
    """Compute by PyTorch's convolutions in bfloat16."""
    trunk = TorchTrunk(images.device, torch.bfloat16)
    flat, buffer = parameters().to(images.device).requires_grad_(), trunk.buffer(IMAGES)
    trunk.put(buffer, images, torch.arange(IMAGES, device=images.device))
    with ByFloat32() if images.device.type == "cpu" else nullcontext():
        return _differentiated(trunk(buffer, flat), flat)


def exact(images: Tensor) -> Result:
    """Compute in float64."""
    flat = parameters().to(images.device).double().requires_grad_()
    return _differentiated(network.trunk(images.double(), flat), flat)


def exact_backward(saved: Saved, images: Tensor) -> Result:
    """Differentiate in float64, with the values, masks and winners of a forward pass."""
    flat = parameters().to(images.device).double().requires_grad_()
    tensors = iter(_trunk_parts(flat))
    x = images.double()

    def valued(x: Tensor, value: Tensor) -> Tensor:
        """Return `value` with the gradient of x."""
        return value + x - x.detach()

    def convolve(x: Tensor) -> Tensor:
        weight, bias = next(tensors), next(tensors)
        weight = weight / network.PIXEL_SCALE if x.shape[1] == 3 else weight
        return conv2d(x, valued(weight, weight.detach().bfloat16().double()), bias, padding=1)

    for number, section in enumerate(saved.workspace.sections):
        a, h, b, j, y = (from_planes(each) for each in (section.a, section.h, section.b, section.j, section.y))
        side = a.shape[-1]
        slot, own = from_planes(section.winner).long(), torch.arange(side, device=images.device) * 2 - 1
        pixel = (own[:, None] + slot // 3) * 2 * side + own + slot % 3
        won = convolve(x).flatten(2).gather(2, pixel.flatten(2)).view(a.shape)
        on_a = valued(won * (a > 0), a)
        on_h = valued(convolve(on_a) * (h > 0), h)
        on_b = valued((on_a + convolve(on_h)) * (b > 0), b)
        on_j = valued(convolve(on_b) * (j > 0), j)
        on_y = on_b + convolve(on_j)
        x = valued(on_y * (y > 0) if number == 2 else on_y, y)
    return _differentiated(x.flatten(1), flat)


def _differentiated(features: Tensor, flat: Tensor) -> Result:
    (gradient,) = torch.autograd.grad(features, flat, _to_features(features.device).to(features.dtype))
    return Result(features.detach(), _trunk_parts(gradient))


def _to_features(device: torch.device) -> Tensor:
    numbers = torch.randn(IMAGES, network.FEATURES, generator=Generator().manual_seed(4))
    return numbers.bfloat16().double().to(device)


def _trunk_parts(gradient: Tensor) -> list[Tensor]:
    return network.split(gradient)[: -network.HEAD_TENSORS]


def _in_network_order(features: Tensor) -> Tensor:
    """Undo `in_kernel_order`."""
    order = in_kernel_order(torch.arange(features.shape[-1], device=features.device))
    return features[..., order.argsort()]
