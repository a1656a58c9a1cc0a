"""Mistakes to put into the kernels, one at a time: the kernels' own cases must notice each.

No mutation reads or writes where it must not, so that one process can try them all.
"""

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from experiments.tests.paper.procgen import triton_cases
from experiments.tests.paper.procgen.cuda.kernel_cases import Cases
from popbandits_experiments.paper.procgen import fused, fused_adam, fused_network
from popbandits_experiments.paper.procgen.kernel_table import KERNELS, Launcher
from popbandits_experiments.paper.procgen.nvrtc import SOURCES

PUT = ("put_bytes", "put_numbers")
FORWARD = ("forward_1", "forward_2", "forward_3")
CONVOLVED = ("back_32", "back_32_add", "back_16", "back_16_add", "back_8", "back_8_add")
ADDED = ("back_32_add", "back_16_add", "back_8_add")
POOLED = ("back_pool_32", "back_pool_16")
TRITON_KERNELS = (
    "frame_kernels.convolve_frames",
    "loss_kernels.loss_gradient",
    "adam_kernels.sum_squares",
    "adam_kernels.adam",
)


@dataclass(frozen=True)
class Mutation:
    """A change of a source file, and the kernels whose cases must notice it."""

    mistake: str
    file: str
    before: str
    after: str
    kernels: tuple[str, ...]

    def apply(self, text: str) -> str:
        """Change a source's text, wherever `before` is."""
        if self.before not in text:
            raise LookupError(f"{self.file} has no {self.before!r} for the mutation {self.mistake!r}")
        return text.replace(self.before, self.after)


CUDA = (
    Mutation("colours swapped", "frames.cu", "colours[i][0] | colours[i][1]", "colours[i][1] | colours[i][0]", PUT),
    Mutation("a row too high", "frames.cu", "(pixel / SIDE + 1) * ROW", "(pixel / SIDE) * ROW", PUT),
    Mutation("the first frames put", "frames.cu", "__ldg(rows + blockIdx.x)", "blockIdx.x", ("put_bytes",)),
    Mutation("a crop not shifted down", "frames.cu", "y + down", "y", ("put_bytes",)),
    Mutation(
        "an edge not repeated", "frames.cu", "min(max(x + right, 0), SIDE - 1)", "(x + right) & 63", ("put_bytes",)
    ),
    Mutation(
        "the first image repeated", "frames.cu", "static_cast<u64>(blockIdx.x)", "static_cast<u64>(0)", ("put_numbers",)
    ),
    Mutation(
        "a tap flipped",
        "convolution.cuh",
        "filters.at[6 + dx]",
        "filters.at[8 - dx]",
        (*FORWARD, "act", *CONVOLVED, *POOLED),
    ),
    Mutation(
        "the filters' gradient mirrored",
        "convolution.cuh",
        "gradient + (1 - dx) * CELL",
        "gradient + (dx - 1) * CELL",
        (*CONVOLVED, *POOLED),
    ),
    Mutation(
        "a row missing in the biases' gradient",
        "convolution.cuh",
        "if (BESIDE && dx == 1)",
        "if (BELOW && dx == 1)",
        (*CONVOLVED, *POOLED),
    ),
    Mutation(
        "a bias dropped",
        "section.cuh",
        "load_bias(bias, biases, half);",
        "load_bias(bias, biases, half); bias[1][0] = 0.0f;",
        (*FORWARD, "act"),
    ),
    Mutation(
        "halves of the biases swapped",
        "section.cuh",
        "+ half * 8 + 2 * t",
        "+ (1 - half) * 8 + 2 * t",
        (*FORWARD, "act"),
    ),
    Mutation("the wrong left neighbour pooled", "section.cuh", "(lane + 28) % WARP", "lane", (*FORWARD, "act")),
    Mutation(
        "a winner's slot wrong", "section.cuh", "placed(most, 0, 2 * ROW_UNIT)", "placed(most, 0, ROW_UNIT)", FORWARD
    ),
    Mutation(
        "half of a sum not added",
        "section.cuh",
        "first += low(there), second += high(there);",
        "first += low(there);",
        (*FORWARD, "act"),
    ),
    Mutation(
        "half of the numbers not rectified",
        "section.cuh",
        "if (RELU) first = fmaxf(first, 0.0f), second = fmaxf(second, 0.0f);",
        "if (RELU) first = fmaxf(first, 0.0f);",
        (*FORWARD, "act"),
    ),
    Mutation(
        "a group of channels repeated",
        "section.cuh",
        "left, filters[dy][2], filters[dy][3]",
        "left, filters[dy][0], filters[dy][1]",
        ("forward_1", "act"),
    ),
    Mutation(
        "the first section's biases used in the second",
        "act.cu",
        "biases = parameters + Shape<1>::PARAMETERS",
        "biases = parameters",
        ("act",),
    ),
    Mutation(
        "the second section's filters used in the third",
        "act.cu",
        "fragments += Shape<2>::FRAGMENTS, ",
        "",
        ("act",),
    ),
    Mutation(
        "a white border",
        "act.cu",
        "make_uint4(0, 0, 0, 0)",
        "make_uint4(0x437f437fu, 0x437fu, 0x437f437fu, 0x437fu)",
        ("act",),
    ),
    Mutation("a frame shifted", "act.cu", "(row + 1) * FRAME_ROW", "row * FRAME_ROW", ("act",)),
    Mutation("red and green swapped", "act.cu", "pack(bytes[0], bytes[1])", "pack(bytes[1], bytes[0])", ("act",)),
    Mutation(
        "colours stored in another order",
        "act.cu",
        "(stored)[colour * (PIXELS / 4) + i]",
        "(stored)[(2 - colour) * (PIXELS / 4) + i]",
        ("act",),
    ),
    Mutation("a row as long as a block's", "act.cu", "*row * stride + image", "*row * gridDim.x + image", ("act",)),
    Mutation(
        "features transposed",
        "act.cu",
        "y = cell / 8 % 8, x = cell % 8",
        "y = cell % 8, x = cell / 8 % 8",
        ("act",),
    ),
    Mutation(
        "the hidden layer's biases dropped",
        "act.cu",
        "low(pack(sum, 0.0f)) + __ldg(biases + row)",
        "low(pack(sum, 0.0f))",
        ("act",),
    ),
    Mutation(
        "the hidden layer not rectified",
        "act.cu",
        "fmaxf(low(pack(sum, 0.0f)) + __ldg(biases + row), 0.0f)",
        "low(pack(sum, 0.0f)) + __ldg(biases + row)",
        ("act",),
    ),
    Mutation(
        "a hidden unit's bias used for its neighbour",
        "act.cu",
        "__ldg(biases + row)",
        "__ldg(biases + (row ^ 1))",
        ("act",),
    ),
    Mutation(
        "logits in another order",
        "act.cu",
        "POLICY + output * HIDDEN",
        "POLICY + (ACTIONS - 1 - output) * HIDDEN",
        ("act",),
    ),
    Mutation(
        "the policy's biases shifted",
        "act.cu",
        "POLICY_BIAS + output)",
        "POLICY_BIAS + (output + 1) % ACTIONS)",
        ("act",),
    ),
    Mutation("the value's bias from elsewhere", "act.cu", "is_value ? VALUE_BIAS", "is_value ? POLICY_BIAS", ("act",)),
    Mutation("no noise", "act.cu", "logit + __ldg(noise + record * ACTIONS + lane)", "logit", ("act",)),
    Mutation("the first step's noise", "act.cu", "noise + record * ACTIONS", "noise + image * ACTIONS", ("act",)),
    Mutation(
        "the second of the largest drawn",
        "act.cu",
        "__ffs(largest) - 1",
        "__ffs(largest & largest - 1 ? largest & largest - 1 : largest) - 1",
        ("act",),
    ),
    Mutation("an action that does not exist", "act.cu", " && lane < ACTIONS)", ")", ("act",)),
    Mutation(
        "a logit recorded for its log-probability",
        "act.cu",
        "logit - most - log_sum, action",
        "logit, action",
        ("act",),
    ),
    Mutation("a logit recorded for the value", "act.cu", "= outputs[ACTIONS]", "= outputs[0]", ("act",)),
    Mutation("another action returned", "act.cu", "current[image] = action", "current[image] = 0", ("act",)),
    Mutation(
        "half of the mask skipped",
        "backward.cu",
        "(seen >> 16 ? 0xffff0000u : 0u)",
        "0xffff0000u",
        CONVOLVED,
    ),
    Mutation(
        "halves of what is added swapped",
        "backward.cu",
        "first += low(added), second += high(added);",
        "first += high(added), second += low(added);",
        ADDED,
    ),
    Mutation("a corner's window dropped", "backward.cu", ", across.add_to(pixel, 0);", ";", (*POOLED, "back_frames")),
    Mutation(
        "a slot wrong",
        "backward.cu",
        "here.chosen(5)",
        "here.chosen(7)",
        (*POOLED, "back_frames"),
    ),
    Mutation(
        "parts of a sum overwritten",
        "backward.cu",
        "part == 0 ? number : *to + number",
        "number",
        ("back_32", "back_32_add", "back_pool_32"),
    ),
    Mutation(
        "later images of a block skipped",
        "backward.cu",
        "image += gridDim.x * IMAGES",
        "image += images",
        ("back_32", "back_32_add", "back_pool_32"),
    ),
    Mutation(
        "rows of a filter swapped",
        "backward.cu",
        "sums[dy][group], left",
        "sums[2 - dy][group], left",
        ("back_frames",),
    ),
    Mutation(
        "odd pixels' neighbours taken for even ones'",
        "backward.cu",
        " + i % 2 - 4 * odd",
        " + i % 2",
        ("back_frames",),
    ),
    Mutation(
        "windows below a strip dropped",
        "backward.cu",
        " || unit % STRIPS + 1 < STRIPS",
        "",
        ("back_frames",),
    ),
    Mutation(
        "the first copy's winners used for all",
        "backward.cu",
        "copies + copy * COPY + WINNERS",
        "copies + WINNERS",
        ("back_frames",),
    ),
    Mutation(
        "halves of the biases' gradient swapped",
        "backward.cu",
        "+ g, bias[0]), put(whole + 3 * 16 * 16 + g + 8, bias[2])",
        "+ g, bias[2]), put(whole + 3 * 16 * 16 + g + 8, bias[0])",
        ("back_frames",),
    ),
)

TRITON = (
    Mutation(
        "the first frames", "frame_kernels.py", "(frame * 3 + colour)", "(image * 3 + colour)", ("convolve_frames",)
    ),
    Mutation("a tap flipped", "frame_kernels.py", "dy * 3 + dx", "dx * 3 + dy", ("convolve_frames",)),
    Mutation(
        "a colour repeated", "frame_kernels.py", "tl.load(weight + 27)", "tl.load(weight + 54)", ("convolve_frames",)
    ),
    Mutation("the left border not masked", "frame_kernels.py", "(column >= 0)", "(column >= -1)", ("convolve_frames",)),
    Mutation(
        "a ratio not clipped",
        "loss_kernels.py",
        "tl.where(near == ratio, _less_weight(clipped, plain), 0.0)",
        "_less_weight(clipped, plain)",
        ("loss_gradient",),
    ),
    Mutation(
        "a value not clipped",
        "loss_kernels.py",
        "tl.where(limited == change, _less_weight(-clipped * clipped, -plain * plain), 0.0)",
        "_less_weight(-clipped * clipped, -plain * plain)",
        ("loss_gradient",),
    ),
    Mutation(
        "half of the entropy's gradient",
        "loss_kernels.py",
        "(log_policy + disorder[:, None])",
        "log_policy",
        ("loss_gradient",),
    ),
    Mutation(
        "the regularisation turned",
        "loss_kernels.py",
        "augmented_policy - policy",
        "policy - augmented_policy",
        ("loss_gradient",),
    ),
    Mutation(
        "rows outside not masked",
        "loss_kernels.py",
        "to_outputs = tl.where(inside[:, None], to_outputs, 0.0)",
        "to_outputs = to_outputs + 0.0",
        ("loss_gradient",),
    ),
    Mutation(
        "augmented units dropped", "loss_kernels.py", "to_units += more_to_units", "to_units += 0.0", ("loss_gradient",)
    ),
    Mutation(
        "the hidden layer not rectified", "loss_kernels.py", "tl.where(x <= 0.0, 0.0, to_x)", "to_x", ("loss_gradient",)
    ),
    Mutation(
        "the heads' biases dropped",
        "loss_kernels.py",
        "return outputs + tl.load(tail + _bias_index(HIDDEN, ACTIONS))[None, :]",
        "return outputs",
        ("loss_gradient",),
    ),
    Mutation("numbers not squared", "adam_kernels.py", "number * number, 0", "number, 0", ("sum_squares",)),
    Mutation("a step counted twice", "adam_kernels.py", "tl.load(step) + 1.0", "tl.load(step) + 2.0", ("sum_squares",)),
    Mutation(
        "short gradients lengthened", "adam_kernels.py", "tl.where(shorter > 1.0, 1.0, shorter)", "shorter", ("adam",)
    ),
    Mutation("a gradient not shortened", "adam_kernels.py", "other=0.0) * scale", "other=0.0)", ("adam",)),
    Mutation(
        "a diverged gradient not noticed",
        "adam_kernels.py",
        "tl.where(shorter > 1.0, 1.0, shorter)",
        "tl.where(shorter < 1.0, shorter, 1.0)",
        ("adam",),
    ),
    Mutation("the mean not corrected", "adam_kernels.py", "tl.load(rate) / correction", "tl.load(rate)", ("adam",)),
    Mutation("the squares not corrected", "adam_kernels.py", "tl.sqrt(square) / root", "tl.sqrt(square)", ("adam",)),
    Mutation("decays swapped", "adam_kernels.py", "count * LOG_BETA)", "count * LOG_BETA_OF_SQUARES)", ("adam",)),
    Mutation("epsilon dropped", "adam_kernels.py", "root + EPSILON", "root + 1e-12", ("adam",)),
)


def copy_sources(folder: Path, mutation: Mutation) -> Path:
    """Copy the CUDA sources to a new folder, one of them changed."""
    shutil.copytree(SOURCES, folder)
    path = folder / mutation.file
    path.write_text(mutation.apply(path.read_text("utf-8")), "utf-8")
    return folder


def sources(mutation: Mutation) -> list[str]:
    """Return the source files of the kernels that must notice a mutation."""
    return sorted({KERNELS[name].source for name in mutation.kernels})


def cuda_fails(name: str, device: torch.device, launcher: Launcher) -> bool:
    """Return whether the case of a CUDA kernel fails; an error other than a wrong result is raised."""
    (case,) = (case for case in Cases(device) if case.name == name)
    return _fails(lambda: case.run(launcher))


def triton_fails(name: str, device: torch.device) -> bool:
    """Return whether the case of a Triton kernel fails."""
    return _fails(lambda: triton_cases.CASES[name](device))


def _fails(check: Callable[[], None]) -> bool:
    try:
        check()
    except AssertionError:
        return True
    return False


@contextmanager
def mutated_triton(mutation: Mutation, folder: Path) -> Iterator[None]:
    """Let networks use a copy of a module of kernels, with a mutation, from a file in a folder."""
    name = Path(mutation.file).stem
    user: ModuleType = {"frame_kernels": fused, "loss_kernels": fused_network, "adam_kernels": fused_adam}[name]
    path = folder / mutation.file
    path.write_text(mutation.apply((SOURCES.parent / mutation.file).read_text("utf-8")), "utf-8")
    spec = importlib.util.spec_from_file_location(f"{name}_{folder.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = getattr(user, name)
    setattr(user, name, module)
    try:
        yield
    finally:
        setattr(user, name, before)
