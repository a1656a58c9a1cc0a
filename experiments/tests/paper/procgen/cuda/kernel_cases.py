"""Launches of every kernel of the trunk with what they must compute, for the CPU's emulation and for GPUs alike.

References are PyTorch's in float64, on the same numbers in bfloat16, layer by layer. A kernel's outputs are NaN before.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Generator, Tensor
from torch.nn.functional import conv2d, conv_transpose2d, linear, max_pool2d, pad

from popbandits_experiments.paper.procgen import network
from popbandits_experiments.paper.procgen.augmentations import crop
from popbandits_experiments.paper.procgen.kernel_table import KERNELS, Launcher
from popbandits_experiments.paper.procgen.packing import Convolution, Packing, in_kernel_order
from popbandits_experiments.paper.procgen.rollout import Rollout

IMAGES = 4
PROGRAMS = 3  # Not a divisor of the images.
MOST_ERROR = 5e-3
MOST_ERROR_OF_ACTING = 1e-3

Check = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """One launch; `check` compares its outputs with what is expected."""

    name: str
    grid: int
    arguments: tuple[Tensor | int | None, ...]
    check: Check

    def run(self, launcher: Launcher) -> None:
        kernel = KERNELS[self.name]
        launcher.launch(self.name, self.grid, kernel.threads, kernel.shared, *self.arguments)
        self.check()


def parameters() -> Tensor:
    """The network's first parameters, with biases that are not 0."""
    flat = network.initial_parameters(0)
    return flat + 0.05 * torch.randn(flat.shape, generator=Generator().manual_seed(1)) * (flat == 0)


def frames(images: int, seed: int = 2) -> Tensor:
    """Frames with noise, areas of one colour, and a black border, as games have them."""
    generator = Generator().manual_seed(seed)
    out = torch.randint(256, (images, 3, 64, 64), generator=generator, dtype=torch.uint8)
    out[:, :, 20:40, 10:30] = out[:, :, :1, :1]
    out[1:, :, :5] = 0
    return out


def put(buffer: Tensor, images: Tensor) -> None:
    """Write frames (n, 3, 64, 64) to a buffer of `FusedTrunk`."""
    buffer[:, 1:-1, 1:-3, :3] = images.permute(0, 2, 3, 1)


def to_planes(x: Tensor) -> Tensor:
    """(n, C, H, W) to (n, C / 8, H, W, 8)."""
    return x.unflatten(1, (-1, 8)).movedim(2, -1).contiguous()  # type: ignore[no-untyped-call, no-any-return]


def from_planes(x: Tensor) -> Tensor:
    """(n, C / 8, H, W, 8) to (n, C, H, W) in float64."""
    return x.double().movedim(-1, 2).flatten(1, 2)


def unpool(gradient: Tensor, winner: Tensor) -> Tensor:
    """Add the gradient of each pooling window to the pixel that won it: (n, C, H / 2, W / 2) to (n, C, H, W)."""
    n, channels, side, _ = gradient.shape
    out = torch.zeros(n, channels, 2 * side + 1, 2 * side + 1, dtype=gradient.dtype, device=gradient.device)
    for slot in range(9):
        window = out[:, :, slot // 3 :: 2, slot % 3 :: 2][:, :, :side, :side]  # Pixel -1 is at index 0.
        window += gradient * (winner == slot)
    assert not out[:, :, 0].any()
    assert not out[:, :, :, 0].any()
    return out[:, :, 1:, 1:]


def close(name: str, ours: Tensor, expected: Tensor) -> None:
    """Assert that tensors agree as a whole, and that no element is far off."""
    difference = (ours.double() - expected).abs()
    assert difference.norm() < MOST_ERROR * expected.norm(), f"{name}: {difference.norm() / expected.norm():.2e}"
    typical = expected.norm() / expected.numel() ** 0.5
    worst = (difference / (expected.abs() + typical)).max()
    assert worst < 4 * MOST_ERROR, f"{name}: an element differs by {worst:.2e}"


class Cases:
    """Makes the cases on a device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.packing = Packing(device)
        self.flat = parameters().to(device)
        self.packed = self.packing.empty()
        self.packing.pack(self.flat, self.packed)
        self._generator = Generator().manual_seed(3)

    def __iter__(self) -> Iterator[Case]:
        yield self.put_bytes()
        yield self.put_numbers()
        yield from (self.forward(section) for section in (1, 2, 3))
        yield self.act()
        for section in (1, 2, 3):
            yield self.back(section, add=False)
            yield self.back(section, add=True)
        yield from (self.back_pool(section) for section in (2, 3))
        yield self.back_frames()

    def put_bytes(self) -> Case:
        """Crops to and beyond all edges, of frames in another order."""
        seen, buffer = frames(IMAGES + 2).to(self.device), self._buffer()
        rows, top, left = (
            torch.tensor(each, device=self.device) for each in ((4, 1, 1, 3), (0, 24, 12, 7), (24, 5, 12, 0))
        )

        def check() -> None:
            images = crop(seen[rows].double(), top, left)
            assert torch.equal(images[2], seen[1].double())
            self._check_buffer(buffer, images)

        return Case("put_bytes", IMAGES, (seen, rows, top, left, buffer), check)

    def put_numbers(self) -> Case:
        images, buffer = torch.randn(IMAGES, 3, 64, 64, generator=self._generator).bfloat16(), self._buffer()
        images = images.to(self.device)
        return Case("put_numbers", IMAGES, (images, buffer), lambda: self._check_buffer(buffer, images))

    def forward(self, section: int) -> Case:
        convolutions = self.packing.section(section - 1)
        first = convolutions[0]
        side, channels = 128 >> section, first.outputs
        if section == 1:
            x, plain = self._frames()
        else:
            x = self._normal(first.inputs, side)
            plain = from_planes(x)
        outputs = [self._poisoned(channels, side // 2) for _ in range(5)]
        a, h, b, j, y = outputs
        winner = torch.full_like(a, 255, dtype=torch.uint8)

        def check() -> None:
            at, on_h, on_b, on_j, on_y = (from_planes(output) for output in outputs)
            convolved = self._convolve(plain, convolutions[0])
            pooled = max_pool2d(convolved, 3, 2, 1)
            close("a", at, pooled.relu())
            won = torch.zeros_like(pooled)
            slots = from_planes(winner)
            assert slots.max() < 9
            padded = pad(convolved, (1, 0, 1, 0), value=-torch.inf)
            for slot in range(9):
                seen = padded[:, :, slot // 3 :: 2, slot % 3 :: 2][:, :, : side // 2, : side // 2]
                won = torch.where(slots == slot, seen, won)
            assert (pooled - won).max() < 1e-4 * pooled.abs().max()
            close("h", on_h, self._convolve(at, convolutions[1]).relu())
            close("b", on_b, (at + self._convolve(on_h, convolutions[2])).relu())
            close("j", on_j, self._convolve(on_b, convolutions[3]).relu())
            expected = on_b + self._convolve(on_j, convolutions[4])
            close("y", on_y, expected.relu() if section == 3 else expected)

        name = f"forward_{section}"
        filters, biases = self.packing.filters(self.packed, first), self.flat[first.parameters :]
        arguments = (x, filters, biases, a, winner, h, b, j, y)
        return Case(name, IMAGES // KERNELS[name].images, arguments, check)

    def act(self) -> Case:
        """Of seven environments, the second to the fifth act; the step is the third of four.

        The first has to choose between equal actions, and the last by noise that is not a number.
        """
        seen = frames(IMAGES).to(self.device)
        flat = self.flat.clone()
        hidden, hidden_bias, policy, policy_bias, value, value_bias = network.split(flat)[-network.HEAD_TENSORS :]
        hidden *= 4  # Mistakes are to be larger than what rounding may change.
        hidden_bias *= 20
        policy *= 100  # A policy with preferences.
        policy[9], policy_bias[9] = policy[3], policy_bias[3]
        weights = in_kernel_order(hidden).bfloat16().contiguous()
        environments, row = slice(1, 1 + IMAGES), 2
        everything = Rollout(3, 7, self.device)
        everything.noise.copy_(torch.randn(everything.noise.shape, generator=self._generator))
        everything.log_probabilities.fill_(torch.nan)
        everything.values.fill_(torch.nan)
        everything.actions.fill_(-1)
        everything.row.fill_(row)
        everything.noise[row, 1, [3, 9]] = 50
        everything.noise[row, IMAGES] = torch.nan
        names = ("frames", "noise", "actions", "log_probabilities", "values")
        records = SimpleNamespace(**{name: getattr(everything, name)[:, environments] for name in names})
        current = torch.full((IMAGES,), -1, dtype=torch.int32, device=self.device)

        def check() -> None:
            at = seen.double()
            for section in range(3):
                first, second, third, fourth, fifth = self.packing.section(section)
                a = _rounded(max_pool2d(self._convolve(at, first), 3, 2, 1).relu())
                h = _rounded(self._convolve(a, second).relu())
                b = _rounded((a + self._convolve(h, third)).relu())
                j = _rounded(self._convolve(b, fourth).relu())
                at = _rounded(b + self._convolve(j, fifth))
            x = (_rounded(linear(at.relu().flatten(1), _rounded(hidden))) + hidden_bias.double()).relu()
            logits = linear(x, policy.double(), policy_bias.double())
            values = linear(x, value.double(), value_bias.double())[:, 0]
            # Terms of both signs cancel: errors are compared with their size.
            error = MOST_ERROR_OF_ACTING * x.norm() / IMAGES**0.5 * value.norm()
            assert (records.values[row] - values).abs().max() < error, f"{records.values[row]}, {values}"
            drawn = (logits + records.noise[row].double())[:-1]
            actions = records.actions[row, :, None]
            assert (actions[0], actions[-1]) == (3, 0)
            assert (drawn.max(1).values - drawn.gather(1, actions[:-1])[:, 0]).max() < error
            assert torch.equal(current.long(), actions[:, 0])
            chosen = logits.log_softmax(1).gather(1, actions)[:, 0]
            assert (records.log_probabilities[row] - chosen).abs().max() < 2 * error
            assert torch.equal(records.frames[row], seen)
            for tensor, before in (
                (everything.log_probabilities, torch.nan),
                (everything.values, torch.nan),
                (everything.actions, -1),
                (everything.frames, 0),
            ):
                tensor[row, environments] = before
                rest = tensor.isnan() if before != before else tensor == before
                assert rest.all(), "a kernel wrote to another row or environment"

        arguments = (
            *(seen, self.packed, weights, flat, everything.row, records.noise, records.frames),
            *(records.actions, records.log_probabilities, records.values, current, everything.actions.stride(0)),
        )
        return Case("act", IMAGES, arguments, check)

    def back(self, section: int, *, add: bool) -> Case:
        at = self.packing.section(section - 1)[1 if add else 4]
        side = 64 >> section
        gradient = self._normal(at.outputs, side)
        x = self._normal(at.inputs, side).relu()
        added = self._normal(at.inputs, side) if add else None
        out = self._poisoned(at.inputs, side)
        shares = self._shares()

        def check() -> None:
            arrived, value = from_planes(gradient), from_planes(x)
            expected = conv_transpose2d(arrived, self._weight(at), padding=1)
            if added is not None:
                expected = expected + from_planes(added)
            close("gradient", from_planes(out), expected * (value > 0))
            self._check_shares(shares, at, value, arrived)

        filters = self.packing.flipped(self.packed, at)
        arguments = (gradient, x, filters, added, out, *self._row(shares, at), IMAGES)
        return Case(f"back_{side}_add" if add else f"back_{side}", PROGRAMS, arguments, check)

    def back_pool(self, section: int) -> Case:
        at = self.packing.section(section - 1)[0]
        side = 128 >> section
        gradient, winner = self._normal(at.outputs, side // 2), self._winner(at.outputs, side)
        x = self._normal(at.inputs, side)
        out = self._poisoned(at.inputs, side)
        shares = self._shares()

        def check() -> None:
            arrived = unpool(from_planes(gradient), from_planes(winner))
            value = from_planes(x)
            close("gradient", from_planes(out), conv_transpose2d(arrived, self._weight(at), padding=1))
            self._check_shares(shares, at, value, arrived)

        filters = self.packing.flipped(self.packed, at)
        arguments = (gradient, winner, x, filters, out, *self._row(shares, at), IMAGES)
        return Case(f"back_pool_{side}", PROGRAMS, arguments, check)

    def back_frames(self) -> Case:
        at = self.packing.section(0)[0]
        gradient, winner = self._normal(at.outputs, 32), self._winner(at.outputs, 64)
        x, plain = self._frames()
        shares = self._shares()

        def check() -> None:
            arrived = unpool(from_planes(gradient), from_planes(winner))
            expected = _filter_gradient(plain, arrived, at).view(3, 3, 3, at.outputs)
            total = shares[:, at.gradient :][:, : 48 * at.outputs].sum(0).view(3, 4, 4, at.outputs)
            close("filters", total[:, :3, :3], expected)
            biases = shares[:, at.gradient + 48 * at.outputs :][:, : at.outputs]
            close("biases", biases.sum(0), arrived.sum((0, 2, 3)))
            self._check_rest(shares, at.gradient, 49 * at.outputs)

        return Case("back_frames", PROGRAMS, (gradient, winner, x, *self._row(shares, at), IMAGES), check)

    def _buffer(self) -> Tensor:
        return torch.zeros(IMAGES, 66, 68, 4, dtype=torch.bfloat16, device=self.device)

    def _check_buffer(self, buffer: Tensor, images: Tensor) -> None:
        expected = self._buffer()
        put(expected, images)
        assert torch.equal(buffer, expected)

    def _frames(self) -> tuple[Tensor, Tensor]:
        plain, buffer = frames(IMAGES).to(self.device), self._buffer()
        put(buffer, plain)
        return buffer, plain.double()

    def _normal(self, channels: int, side: int) -> Tensor:
        numbers = torch.randn(IMAGES, channels // 8, side, side, 8, generator=self._generator)
        return numbers.bfloat16().to(self.device)

    def _winner(self, channels: int, side: int) -> Tensor:
        """Winners of windows on noise."""
        noise = torch.randn(IMAGES, channels, side, side, generator=self._generator)
        _, index = max_pool2d(noise, 3, 2, 1, return_indices=True)
        own = torch.arange(side // 2) * 2 - 1  # First row or column of a window.
        slots = 3 * (index // side - own[:, None]) + (index % side - own)
        return to_planes(slots.to(torch.uint8)).to(self.device)

    def _poisoned(self, channels: int, side: int) -> Tensor:
        shape = (IMAGES, channels // 8, side, side, 8)
        return torch.full(shape, torch.nan, dtype=torch.bfloat16, device=self.device)

    def _shares(self) -> Tensor:
        return torch.full((PROGRAMS, self.packing.gradient_size), torch.nan, device=self.device)

    def _row(self, shares: Tensor, at: Convolution) -> tuple[Tensor, int]:
        return shares.view(-1)[at.gradient :], shares.stride(0)

    def _check_shares(self, shares: Tensor, at: Convolution, x: Tensor, gradient: Tensor) -> None:
        filters = _filter_gradient(x, gradient, at)
        size = filters.numel()
        found = shares[:, at.gradient :][:, : size + at.outputs].sum(0)
        close("filters", found[:size].view(filters.shape), filters)
        close("biases", found[size:], gradient.sum((0, 2, 3)))
        self._check_rest(shares, at.gradient, size + at.outputs)

    def _check_rest(self, shares: Tensor, begin: int, size: int) -> None:
        assert shares[:, :begin].isnan().all(), "a kernel wrote to another one's shares"
        assert shares[:, begin + size :].isnan().all(), "a kernel wrote to another one's shares"

    def _weight(self, at: Convolution) -> Tensor:
        shape = (at.outputs, at.inputs, 3, 3)
        weight = self.flat[at.parameters :][: at.outputs * at.inputs * 9].view(shape)
        return (weight / network.PIXEL_SCALE if at.parameters == 0 else weight).bfloat16().double()

    def _convolve(self, x: Tensor, at: Convolution) -> Tensor:
        bias = self.flat[at.parameters + at.outputs * at.inputs * 9 :][: at.outputs]
        return conv2d(x, self._weight(at), bias.double(), padding=1)


def _filter_gradient(x: Tensor, gradient: Tensor, at: Convolution) -> Tensor:
    """Return the gradient of filters, (9, in, out)."""
    # A convolution of x with the gradient, images in the place of channels.
    filters = conv2d(x.transpose(0, 1), gradient.transpose(0, 1), padding=1)
    return filters.permute(2, 3, 0, 1).reshape(9, at.inputs, at.outputs)


def _rounded(x: Tensor) -> Tensor:
    return x.bfloat16().double()
