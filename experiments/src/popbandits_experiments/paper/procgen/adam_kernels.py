# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
"""Triton kernels of Adam: PyTorch's own gives one tensor ten blocks, however large it is.

Comparisons are written so that NaN passes: an agent whose weights diverged must be found out.
"""

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


@triton.jit
def sum_squares(gradient, step, sums, size, BLOCK: tl.constexpr):
    """Write each program's sum of the gradient's squares, and count the step."""
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    number = tl.load(gradient + at, mask=at < size, other=0.0)
    tl.store(sums + program, tl.sum(number * number, 0))
    if program == 0:
        tl.store(step, tl.load(step) + 1.0)


@triton.jit
def adam(
    parameters,
    gradient,
    exp_avg,
    exp_avg_sq,
    step,
    rate,
    sums,
    size,
    MAX_NORM: tl.constexpr,
    LEAST_NORM: tl.constexpr,
    BETA: tl.constexpr,
    BETA_OF_SQUARES: tl.constexpr,
    LOG_BETA: tl.constexpr,
    LOG_BETA_OF_SQUARES: tl.constexpr,
    EPSILON: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Change parameters as `torch.optim.Adam` does, by the gradient shortened to a norm of at most MAX_NORM.

    The step is already counted, and the gradient's squares are summed up in SUMS numbers.
    """
    shorter = MAX_NORM / (tl.sqrt(tl.sum(tl.load(sums + tl.arange(0, SUMS)), 0)) + LEAST_NORM)
    scale = tl.where(shorter > 1.0, 1.0, shorter)
    # 1 - β^t in float64: in float32 it would lose four digits in the first steps.
    count = tl.load(step).to(tl.float64)
    correction = (1.0 - tl.exp(count * LOG_BETA)).to(tl.float32)
    correction_of_squares = (1.0 - tl.exp(count * LOG_BETA_OF_SQUARES)).to(tl.float32)
    length = tl.load(rate) / correction
    root = tl.sqrt(correction_of_squares)

    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    number = tl.load(gradient + at, mask=inside, other=0.0) * scale
    mean = BETA * tl.load(exp_avg + at, mask=inside, other=0.0) + (1 - BETA) * number
    square = tl.load(exp_avg_sq + at, mask=inside, other=0.0)
    square = BETA_OF_SQUARES * square + (1 - BETA_OF_SQUARES) * number * number
    before = tl.load(parameters + at, mask=inside, other=0.0)
    tl.store(exp_avg + at, mean, mask=inside)
    tl.store(exp_avg_sq + at, square, mask=inside)
    tl.store(parameters + at, before - length * mean / (tl.sqrt(square) / root + EPSILON), mask=inside)
