"""The trunk on a GPU in bfloat16, forward and backward through our own kernels.

Activations are (n, C / 8, H, W, 8): eight channels of a pixel lie together.

| symbol | meaning | shape without n |
|---|---|---|
| x | a section's input | (C_in / 8, H, W, 8) |
| winner | index of the maximum in each pooling window | (C / 8, H / 2, W / 2, 8) |
| a, h, b, j | relu(pooled), relu(conv(a)), relu(a + conv(h)), relu(conv(b)) | (C / 8, H / 2, W / 2, 8) |
| y | b + conv(j), the section's output, rectified in the last section | (C / 8, H / 2, W / 2, 8) |
| shares | for each program of a kernel, its sum for the gradient of the parameters | (programs, gradient) |
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from popbandits.errors import ArgumentError
from popbandits_experiments.cuda_graphs import first_use
from popbandits_experiments.paper.procgen import frame_kernels
from popbandits_experiments.paper.procgen.augmentations import Draws
from popbandits_experiments.paper.procgen.environments import FRAME
from popbandits_experiments.paper.procgen.kernel_table import IMAGES_OF_AN_UPDATE, KERNELS, Launcher, programs_on
from popbandits_experiments.paper.procgen.lanes import join_lane
from popbandits_experiments.paper.procgen.network import CHANNELS, FEATURES
from popbandits_experiments.paper.procgen.packing import GROUP, INPUT_CHANNELS, Convolution, Packing
from popbandits_experiments.paper.procgen.rollout import Rollout
from popbandits_experiments.paper.procgen.torch_trunk import augment

SECTIONS = len(CHANNELS) - 1
SIDE = FRAME[1]
CONVOLVE_BLOCK = 512


class Section:
    """Activations of a section for a number of images, and room for three gradients of the same shape.

    More gradients are not needed at a time: that of h replaces that of j, and that of a replaces that of y.
    """

    def __init__(self, index: int, images: int, device: torch.device) -> None:
        side = SIDE >> (index + 1)
        shape = (images, CHANNELS[index + 1] // GROUP, side, side, GROUP)

        def empty() -> Tensor:
            return torch.empty(shape, dtype=torch.bfloat16, device=device)

        self.winner = torch.empty(shape, dtype=torch.uint8, device=device)
        self.a, self.h, self.b, self.j, self.y = empty(), empty(), empty(), empty(), empty()
        self.to_y_or_a, self.to_j_or_h, self.to_b = empty(), empty(), empty()


class Workspace:
    """All activations and gradients of an update: about 0.45 MB per image."""

    def __init__(self, images: int, packing: Packing, device: torch.device) -> None:
        self.sections = [Section(index, images, device) for index in range(SECTIONS)]
        self.shares = torch.empty(programs_on(device), packing.gradient_size, device=device)


@dataclass(frozen=True)
class Saved:
    """Results of a forward pass that `FusedTrunk.backward` needs, until the next forward pass of the same size."""

    frames: Tensor
    workspace: Workspace

    @property
    def features(self) -> Tensor:
        """The features in kernel order, (n, 2048)."""
        return self.workspace.sections[-1].y.view(-1, FEATURES)


_ALLOCATING = Lock()


class FusedTrunk:
    """The network's trunk with our own kernels; it replaces `network.trunk`.

    All methods may be captured in CUDA graphs after a first call outside of one.

    Args:
        device: Device of all tensors.
        launcher: Launches the kernels of `kernel_table.KERNELS` on this device.
    """

    def __init__(self, device: torch.device, launcher: Launcher) -> None:
        self._device = torch.empty(0, device=device).device  # With its index.
        self._launcher = launcher
        self._workspaces: dict[int, Workspace] = {}
        self._lane = join_lane(self, self._device)
        self.turn: AbstractContextManager[Any] = self._lane.turn
        """Lock to hold during an update: members of a lane share a workspace."""
        self._packing = Packing(device)
        self._packed = self._packing.empty()

    def buffer(self, frames: int) -> Tensor:
        """Make an input buffer for this number of frames, with a border of zeros."""
        return torch.zeros(frames, SIDE + 2, SIDE + 4, INPUT_CHANNELS, dtype=torch.bfloat16, device=self._device)

    def put(self, buffer: Tensor, frames: Tensor, rows: Tensor) -> None:
        """Write the frames at these indices, (n, 3, 64, 64) of bytes, to a buffer of as many; bfloat16 is exact."""
        self._put("put_bytes", buffer, frames, rows, None, None)

    def put_augmented(self, buffer: Tensor, frames: Tensor, rows: Tensor, augmentation: str, draws: Draws) -> None:
        """Augment the frames at these indices and write them like `put`."""
        if augmentation == "crop":
            self._put("put_bytes", buffer, frames, rows, *draws)
        elif augmentation == "random-convolution":
            blocks = len(rows) * SIDE * SIDE // CONVOLVE_BLOCK
            with first_use("convolve_frames", buffer.dtype, buffer.device):
                frame_kernels.convolve_frames[(blocks,)](frames, rows, *draws, buffer, SIDE=SIDE, BLOCK=CONVOLVE_BLOCK)
        else:
            self._put("put_numbers", buffer, augment(augmentation, buffer.dtype, frames.index_select(0, rows), draws))

    def load(self, flat: Tensor) -> None:
        """Pack parameters that have changed."""
        self._packing.pack(flat, self._packed)

    def act(self, frames: Tensor, flat: Tensor, hidden: Tensor, rollout: Rollout) -> Tensor:
        """Draw actions, int32, with the whole network, and record the step in the next row.

        Args:
            frames: Frames, (n, 3, 64, 64) of bytes.
            flat: Parameters.
            hidden: Weights of the hidden layer in bfloat16, their columns in kernel order.
            rollout: Rollout of n environments.
        """
        actions = torch.empty(len(frames), dtype=torch.int32, device=self._device)
        self._launch(
            "act",
            len(frames),
            frames,
            self._packed,
            hidden,
            flat,
            rollout.row,
            rollout.noise,
            rollout.frames,
            rollout.actions,
            rollout.log_probabilities,
            rollout.values,
            actions,
            rollout.actions.stride(0),
        )
        return actions

    def forward(self, buffer: Tensor, flat: Tensor) -> Saved:
        """Compute the features of the frames in a buffer, (n, 2048) in kernel order, and save what `backward` needs."""
        images = len(buffer)
        if images == 0 or images % IMAGES_OF_AN_UPDATE:
            raise ArgumentError(f"images of an update must be a multiple of {IMAGES_OF_AN_UPDATE}, got {images}")
        workspace = self._workspace(images)
        x = buffer
        for index, section in enumerate(workspace.sections):
            first = self._packing.section(index)[0]
            name = f"forward_{index + 1}"
            self._launch(
                name,
                images // KERNELS[name].images,
                x,
                self._packing.filters(self._packed, first),
                flat[first.parameters :],
                section.a,
                section.winner,
                section.h,
                section.b,
                section.j,
                section.y,
            )
            x = section.y
        return Saved(buffer, workspace)

    def backward(self, saved: Saved, to_features: Tensor, out: Tensor) -> None:
        """Compute the gradient of the trunk's parameters.

        Args:
            saved: Result of the last `forward`.
            to_features: Gradient of the features, (n, 2048) in kernel order, bfloat16.
            out: Receives the gradient, in the order of the flat parameters.
        """
        sections = saved.workspace.sections
        last = sections[-1]
        torch.ops.aten.threshold_backward(to_features.view(last.y.shape), last.y, 0, grad_input=last.to_y_or_a)
        for index in reversed(range(SECTIONS)):
            section, side = sections[index], SIDE >> (index + 1)
            first, second, third, fourth, fifth = self._packing.section(index)
            to_y, to_j, to_b = section.to_y_or_a, section.to_j_or_h, section.to_b
            self._back(f"back_{side}", saved, fifth, to_y, section.j, None, to_j)
            self._back(f"back_{side}_add", saved, fourth, to_j, section.b, to_y, to_b)
            to_h, to_a = to_j, to_y
            self._back(f"back_{side}", saved, third, to_b, section.h, None, to_h)
            self._back(f"back_{side}_add", saved, second, to_h, section.a, to_b, to_a)
            if index == 0:  # The gradient of the frames is not needed.
                self._sum("back_frames", saved, first, to_a, section.winner, saved.frames)
            else:
                before = sections[index - 1]
                filters = self._packing.flipped(self._packed, first)
                name = f"back_pool_{2 * side}"
                self._sum(name, saved, first, to_a, section.winner, before.y, filters, before.to_y_or_a)
        self._packing.unpack_gradient(saved.workspace.shares, out)

    def _put(self, name: str, buffer: Tensor, *arguments: Tensor | None) -> None:
        with first_use(name, self._device):
            self._launch(name, len(buffer), *arguments, buffer)

    def _back(
        self, name: str, saved: Saved, at: Convolution, gradient: Tensor, x: Tensor, add: Tensor | None, out: Tensor
    ) -> None:
        self._sum(name, saved, at, gradient, x, self._packing.flipped(self._packed, at), add, out)

    def _sum(self, name: str, saved: Saved, at: Convolution, *arguments: Tensor | None) -> None:
        """Launch a kernel whose programs also write their shares of a convolution's gradient."""
        shares = saved.workspace.shares
        row = shares.view(-1)[at.gradient :]
        self._launch(name, len(shares), *arguments, row, shares.stride(0), len(saved.frames))

    def _launch(self, name: str, grid: int, *arguments: Tensor | int | None) -> None:
        self._launcher.launch(name, grid, KERNELS[name].threads, KERNELS[name].shared, *arguments)

    def _workspace(self, images: int) -> Workspace:
        if images not in self._workspaces:
            # It lives as long as a trunk that has used it: captured graphs hold its addresses.
            with _ALLOCATING:
                shared = self._lane.workspaces.get(images)
                if shared is None:
                    shared = self._lane.workspaces[images] = Workspace(images, self._packing, self._device)
            self._workspaces[images] = shared
        return self._workspaces[images]
