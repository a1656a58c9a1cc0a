"""Prints, as JSON, how far frames that a GPU's kernels wrote to an input buffer are from those they must be.

To be run with TRITON_INTERPRET=1 in a process of its own: Triton decides between interpreting and compiling on import.
"""

import json
from typing import cast

import torch
from torch import Generator, Tensor

from popbandits.paper.procgen.augmentations import AUGMENTATIONS
from popbandits.paper.procgen.fused import FusedTrunk
from popbandits.paper.procgen.kernel_table import Launcher

N = 2


def difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


def main() -> None:
    frames = torch.randint(256, (N, 3, 64, 64), generator=Generator().manual_seed(2), dtype=torch.uint8)
    trunk = FusedTrunk(torch.device("cpu"), cast(Launcher, None))  # It launches nothing.
    buffer, convolved = trunk.buffer(N).float(), trunk.buffer(N).float()  # The interpreter has no bfloat16.
    trunk.put(buffer, frames)
    inside = buffer[:, 1:65, 1:65, :3]
    convolution = AUGMENTATIONS["random-convolution"]
    draws = convolution.draw(N, Generator().manual_seed(4))
    trunk.put_augmented(convolved, frames, "random-convolution", draws)
    found = {
        "frames": difference(inside.permute(0, 3, 1, 2), frames.float()),
        "border": float(buffer.abs().sum() - inside.sum()),
        "convolved": difference(
            convolved[:, 1:65, 1:65, :3].permute(0, 3, 1, 2), 255 * convolution.apply(frames / 255, *draws)
        ),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
