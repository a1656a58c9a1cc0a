"""Prints, as JSON, how far the fused network's gradients are from autograd's in float64, and frames convolved.

Arguments name what is computed, by default everything. To be run with TRITON_INTERPRET=1 in a process of its own:
Triton decides between interpreting and compiling on import.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Generator, Tensor
from torch.nn.functional import linear

from popbandits_experiments.paper.procgen import network
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS
from popbandits_experiments.paper.procgen.fused import FusedTrunk
from popbandits_experiments.paper.procgen.fused_network import BLOCK, PRECISION, TAIL, UNITS, FusedNetwork
from popbandits_experiments.paper.procgen.kernel_table import Launcher
from popbandits_experiments.paper.procgen.learner import Learner, PlainTrunk, Sizes
from popbandits_experiments.paper.procgen.loss_kernels import _evaluate, _log_softmax
from popbandits_experiments.paper.procgen.losses import Coefficients, total_loss
from popbandits_experiments.paper.procgen.rollout import Rollout

CPU = torch.device("cpu")
STEPS, ENVIRONMENTS, BATCH = 9, 21, 40  # Multiples of 16 neither a step nor a batch.
LR = 1e-4


def difference(ours: Tensor, theirs: Tensor) -> float:
    return float(((ours - theirs).norm() / theirs.norm()).detach())


def in_groups(features: Tensor) -> Tensor:
    """From PyTorch's order, (C, y, x), to that of the kernels, (C/8, y, x, C%8)."""
    return features.view(-1, 4, 8, 64).transpose(2, 3).reshape(-1, 2048)


@dataclass
class Saved:
    features: Tensor
    packed: Tensor


class Given(PlainTrunk):
    """A trunk whose features are its input; of its backward pass it records what came."""

    def forward(self, buffer: Tensor, flat: Tensor) -> Saved:
        return Saved(buffer, flat)

    def backward(self, saved: Saved, to_features: Tensor, out: Tensor) -> None:
        self.to_features = to_features
        out.fill_(7)


class Explicit(PlainTrunk):
    """PyTorch's trunk, in the order of the kernels, with the parameters that were loaded last."""

    def load(self, flat: Tensor) -> None:
        self.packed = flat.detach().clone().requires_grad_()

    def act(self, frames: Tensor, flat: Tensor, hidden: Tensor, rollout: Rollout) -> Tensor:  # type: ignore[override]
        assert torch.equal(hidden, in_groups(network.split(self.packed)[-network.HEAD_TENSORS]))
        return super().act(frames, self.packed, rollout)

    def forward(self, buffer: Tensor, flat: Tensor) -> Saved:
        with torch.enable_grad():
            return Saved(in_groups(self(buffer, self.packed)), self.packed)

    def backward(self, saved: Saved, to_features: Tensor, out: Tensor) -> None:
        (gradient,) = torch.autograd.grad(saved.features, saved.packed, to_features)
        out.copy_(gradient[: network.TRUNK_SIZE])


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=Generator().manual_seed(seed))


def coefficients(clip: float, entropy: float, alpha: float) -> Coefficients:
    return Coefficients(torch.tensor(clip), torch.tensor(entropy), torch.tensor(alpha))


def plain_heads(features: Tensor, flat: Tensor) -> tuple[Tensor, Tensor]:
    hidden, hidden_bias, policy, policy_bias, value, value_bias = network.split(flat)[-network.HEAD_TENSORS :]
    x = linear(features, hidden, hidden_bias).relu()
    return linear(x, policy, policy_bias), linear(x, value, value_bias)[:, 0]


class Case:
    """Random features, parameters and records; the frames of a batch are in the order of the batch."""

    def __init__(self, rows: int, dtype: torch.dtype = torch.float32, device: torch.device = CPU) -> None:
        self.flat = network.initial_parameters(0)
        self.flat[-TAIL:] += 0.05 * normal(TAIL, seed=1)
        self.features = normal(rows, 2048, seed=2).relu().to(dtype).float()
        self.order = torch.randperm(STEPS * ENVIRONMENTS, generator=Generator().manual_seed(3))[:BATCH]
        self.dtype = dtype
        logits, values = (tensor.float() for tensor in plain_heads(self.features.double(), self.flat.double()))
        self.rollout = Rollout(STEPS, ENVIRONMENTS, CPU)
        self.rollout.begin(Generator().manual_seed(4))
        steps = STEPS * ENVIRONMENTS
        self.rollout.actions.view(-1)[:steps] = torch.randint(15, (steps,), generator=Generator().manual_seed(5))
        self.record("actions", (logits[:BATCH] + normal(BATCH, 15, seed=6)).argmax(1))
        batch = self.rollout.batch(self.order)
        policies = logits[:BATCH].log_softmax(1).gather(1, batch.actions[:, None])[:, 0]
        self.record("log_probabilities", policies + 0.2 * normal(BATCH, seed=7))
        self.record("values", values[:BATCH] + 0.3 * normal(BATCH, seed=8))
        self.record("returns", values[:BATCH] + normal(BATCH, seed=9))
        self.record("advantages", normal(BATCH, seed=10))
        self.flat, self.features, self.order = (each.to(device) for each in (self.flat, self.features, self.order))
        for name, recorded in vars(self.rollout).items():
            setattr(self.rollout, name, recorded.to(device))

    def record(self, name: str, values: Tensor) -> None:
        getattr(self.rollout, name).view(-1)[self.order] = values

    def ours(self, used: Coefficients) -> tuple[Tensor, Tensor]:
        """The gradients of the parameters after the trunk, and of the features."""
        trunk = Given()
        fused = FusedNetwork(trunk, self.flat.device, self.dtype)
        fused.load(self.flat)
        out = torch.full_like(self.flat, float("nan"))
        used = Coefficients(*(each.to(self.flat.device) for each in vars(used).values()))
        fused.gradient(in_groups(self.features).to(self.dtype), self.flat, self.rollout, self.order, used, out)
        assert bool((out[: network.TRUNK_SIZE] == 7).all())
        return out[network.TRUNK_SIZE :], trunk.to_features

    def theirs(self, used: Coefficients) -> tuple[Tensor, Tensor]:
        flat, features = self.flat.double().requires_grad_(), self.features.double().requires_grad_()
        batch = self.rollout.batch(self.order)
        doubled = replace(
            batch,
            **{name: tensor.double() for name, tensor in vars(batch).items() if name != "actions"},
        )
        exact = Coefficients(*(tensor.double().to(flat.device) for tensor in vars(used).values()))
        loss = total_loss(*plain_heads(features, flat), doubled, exact)
        to_flat, to_features = torch.autograd.grad(loss, (flat, features))
        return to_flat[network.TRUNK_SIZE :], in_groups(to_features)

    def errors(self, used: Coefficients) -> list[float]:
        """Relative errors: hidden weights and bias, policy, its bias, value, its bias, and the features."""
        (ours, our_features), (theirs, their_features) = self.ours(used), self.theirs(used)
        sizes = network.SIZES[-network.HEAD_TENSORS :]
        pairs = zip(ours.split(sizes), theirs.split(sizes), strict=True)
        return [*(difference(one, other) for one, other in pairs), difference(our_features, their_features)]


def sides(case: Case, clip: float) -> list[int]:
    """How many steps of a batch are on each side of what the loss distinguishes."""
    batch = case.rollout.batch(case.order)
    logits, values = plain_heads(case.features, case.flat)
    ratio = (logits[:BATCH].log_softmax(1).gather(1, batch.actions[:, None])[:, 0] - batch.log_probabilities).exp()
    change, error = values[:BATCH] - batch.values, values[:BATCH] - batch.returns
    near = batch.values + change.clamp(-clip, clip) - batch.returns
    return [
        int((side & (sign * advantage > 0)).sum())
        for side, advantage in (
            *((side, batch.advantages) for side in (ratio < 1 - clip, ratio > 1 + clip, (ratio - 1).abs() < clip)),
            *((side, error.abs() - near.abs()) for side in (change < -clip, change > clip)),
        )
        for sign in (1, -1)
    ]


@triton.jit
def evaluate(
    hidden,
    tail,
    out,
    size,
    HIDDEN: tl.constexpr,
    ACTIONS: tl.constexpr,
    BLOCK: tl.constexpr,
    UNITS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write log-probabilities and, last, the value, (size, ACTIONS + 1), bit for bit as the loss has them."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    output = tl.arange(0, ACTIONS + 1)[None, :]
    is_action, inside = output < ACTIONS, row < size
    outputs = _evaluate(hidden, tail, row, inside, HIDDEN, ACTIONS, BLOCK, UNITS, PRECISION)
    outputs = tl.where(is_action, _log_softmax(outputs, is_action), outputs)
    tl.store(out + row[:, None] * (ACTIONS + 1) + output, outputs, mask=inside[:, None])


def at_the_bounds() -> list[float]:
    """Nothing has changed since acting, and the clipping's range is 0: ratios and values are at both bounds."""
    case = Case(BATCH)
    outputs = torch.full((BATCH, 16), torch.nan)
    hidden = torch.mm(in_groups(case.features), in_groups(network.split(case.flat)[-network.HEAD_TENSORS]).T)
    sizes = {"HIDDEN": network.HIDDEN, "ACTIONS": 15, "BLOCK": BLOCK, "UNITS": UNITS, "PRECISION": PRECISION}
    evaluate[(triton.cdiv(BATCH, BLOCK),)](hidden, case.flat[-TAIL:], outputs, BATCH, **sizes)
    actions = case.rollout.batch(case.order).actions
    case.record("log_probabilities", outputs.gather(1, actions[:, None])[:, 0])
    case.record("values", outputs[:, -1])
    batch, (logits, values) = case.rollout.batch(case.order), plain_heads(case.features, case.flat)
    torch.testing.assert_close(batch.values, values)
    torch.testing.assert_close(batch.log_probabilities, logits.log_softmax(1).gather(1, actions[:, None])[:, 0])
    # In float64 they are only near the bounds, but a gradient passes at a bound as it does within a wide range.
    ours, theirs = case.ours(coefficients(0.0, 0.1, 0.0)), case.theirs(coefficients(1e9, 0.1, 0.0))
    return [difference(one, other) for one, other in zip(ours, theirs, strict=True)]


def between_equal_errors() -> list[float]:
    """Values of 1 before and ½ after clamping, as far from the return: only half of the gradient passes."""
    case = Case(BATCH)
    *_, value, value_bias = network.split(case.flat)
    value.zero_()
    value_bias.fill_(1)
    case.record("values", torch.zeros(BATCH))
    case.record("returns", torch.full((BATCH,), 0.75))
    used = coefficients(0.5, 0.0, 0.0)
    (ours, _), (theirs, _) = case.ours(used), case.theirs(used)
    return [difference(ours[-257:], theirs[-257:]), float(ours[-1])]


def diverged() -> bool:
    """Whether one parameter that is not a number leaves a trace in the gradient."""
    case = Case(BATCH)
    case.flat[-TAIL] = float("nan")
    gradient, _ = case.ours(coefficients(0.2, 0.01, 0.0))
    return bool(gradient.isnan().any())


def learned(make: Callable[[], Any]) -> tuple[Tensor, Tensor, list[list[int]]]:
    """The parameters before and after two rollouts with an update each, and the actions of all."""
    learner = Learner(0, Sizes(environments=2, steps=4, epochs=1, minibatches=2), make(), CPU, regularised=True)
    learner.set(lr=LR, clip=0.02, entropy=0.2, alpha=0.5)
    state = learner.state()
    state["parameters"] += 0.01 * normal(len(state["parameters"]), seed=1)
    learner.restore(state)
    generator, rng, actions = Generator().manual_seed(0), np.random.default_rng(0), []
    for _ in range(2):
        learner.begin(generator)
        for _ in range(5):
            learner.frames[:] = rng.integers(256, size=(2, 3, 4, 4), dtype=np.uint8).repeat(16, 2).repeat(16, 3)
            actions.append(learner.act().tolist())
        learner.look_back(rng.normal(size=(4, 2)), rng.random((4, 2)) < 0.2)
        learner.update("grayscale", generator)
    return state["parameters"], learner.state()["parameters"], actions


def learning() -> dict[str, Any]:
    before, ours, our_actions = learned(lambda: FusedNetwork(Explicit(), CPU, torch.float32))
    _, theirs, their_actions = learned(PlainTrunk)
    return {
        "parameters": float((ours - theirs).norm() / (theirs - before).norm()),
        "same actions": our_actions == their_actions,
    }


def frames() -> float:
    """Errors of convolved frames in an input buffer."""
    seen = torch.randint(256, (2, 3, 64, 64), generator=Generator().manual_seed(2), dtype=torch.uint8)
    trunk = FusedTrunk(CPU, cast(Launcher, None))  # It launches nothing.
    convolved = trunk.buffer(2).float()  # The interpreter has no bfloat16.
    convolution = AUGMENTATIONS["random-convolution"]
    draws = convolution.draw(2, Generator().manual_seed(4))
    trunk.put_augmented(convolved, seen, torch.tensor([1, 0]), "random-convolution", draws)
    expected = 255 * convolution.apply(seen.flip(0) / 255, *draws)
    return difference(convolved[:, 1:65, 1:65, :3].permute(0, 3, 1, 2), expected)


def main() -> None:
    torch.set_num_threads(1)
    usual = coefficients(0.1, 0.2, 0.5)
    both = Case(2 * BATCH)
    parts: dict[str, Callable[[], Any]] = {
        "sides": lambda: sides(both, 0.1),
        "clean": lambda: Case(BATCH).errors(usual),
        "regularised": lambda: both.errors(usual),
        "regularisation alone": lambda: both.errors(coefficients(0.1, 0.0, 100.0)),
        "bfloat16": lambda: Case(2 * BATCH, torch.bfloat16).errors(usual),
        "at the bounds": at_the_bounds,
        "between equal errors": between_equal_errors,
        "diverged": diverged,
        "learning": learning,
        "frames": frames,
    }
    print(json.dumps({name: parts[name]() for name in sys.argv[1:] or parts}))


if __name__ == "__main__":
    main()
