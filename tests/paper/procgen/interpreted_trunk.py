"""Prints, as JSON, how far the GPU's trunk is from PyTorch's, with tensors in float32.

To be run with TRITON_INTERPRET=1 in a process of its own: Triton decides between interpreting and compiling on import.
"""

import json

import torch
from torch import Generator, Tensor

from popbandits.paper.procgen import fused, network
from popbandits.paper.procgen.augmentations import AUGMENTATIONS

N = 2


def difference(ours: Tensor, theirs: Tensor) -> float:
    return float(((ours - theirs).norm() / theirs.norm()).detach())


def use_large_tiles() -> None:
    """The interpreter's time goes with the number of programs; three do not divide the pixels evenly."""
    fused.CONVOLVE_TILES.update(dict.fromkeys(fused.CONVOLVE_TILES, (4096, 1)))
    fused.CONVOLVE_BACK_TILES.update(dict.fromkeys(fused.CONVOLVE_BACK_TILES, (512, 1, 1)))
    fused.FRAME_FILTER_TILE, fused.POOL_TILE, fused.GRADIENT_PROGRAMS = (512, 1), (2048, 1), 3


def main() -> None:
    use_large_tiles()
    flat = network.initial_parameters(0)
    flat += 0.02 * torch.randn(flat.shape, generator=Generator().manual_seed(1)) * (flat == 0)  # Biases, too.
    flat.requires_grad_()
    frames = torch.randint(256, (N, 3, 64, 64), generator=Generator().manual_seed(2), dtype=torch.uint8)
    trunk = fused.FusedTrunk(torch.device("cpu"), torch.float32)
    buffer = trunk.buffer(N)
    trunk.put(buffer, frames)
    inside = buffer[:, 1:65, 1:65, :3]
    ours, theirs = trunk(buffer, flat), network.trunk(frames.float(), flat)
    weights = torch.randn(theirs.shape, generator=Generator().manual_seed(3))
    (our_gradient,) = torch.autograd.grad((ours * weights).sum(), flat)
    (their_gradient,) = torch.autograd.grad((theirs * weights).sum(), flat)
    parts = list(zip(network.split(our_gradient), network.split(their_gradient), strict=True))[: -network.HEAD_TENSORS]
    convolution = AUGMENTATIONS["random-convolution"]
    draws = convolution.draw(N, Generator().manual_seed(4))
    convolved = trunk.buffer(N)
    trunk.put_augmented(convolved, frames, "random-convolution", draws)
    found = {
        "frames": difference(inside.permute(0, 3, 1, 2), frames.float()),
        "border": float(buffer.abs().sum() - inside.sum()),
        "convolved": difference(
            convolved[:, 1:65, 1:65, :3].permute(0, 3, 1, 2), 255 * convolution.apply(frames / 255, *draws)
        ),
        "features": difference(ours, theirs),
        "gradients": [difference(our_part, their_part) for our_part, their_part in parts],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
