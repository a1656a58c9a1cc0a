# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
"""Triton kernel that augments frames, (n, 3, H, W), in the input layout of the trunk, (n, H + 2, W + 4, 4)."""

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


@triton.jit
def convolve_frames(frames, rows, weights, out, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Convolve each of the frames at some rows with its own weights (n, 3, 3, 3, 3), and write it to the inside of out.

    A compiler's kernel reads every neighbour once for each colour of the result; this one reads it once for all three.
    """
    blocks_a_frame: tl.constexpr = SIDE * SIDE // BLOCK
    image = tl.program_id(0) // blocks_a_frame
    index = tl.program_id(0) % blocks_a_frame * BLOCK + tl.arange(0, BLOCK)
    y, x = index // SIDE, index % SIDE
    frame = tl.load(rows + image)
    red = tl.zeros((BLOCK,), tl.float32)
    green = tl.zeros((BLOCK,), tl.float32)
    blue = tl.zeros((BLOCK,), tl.float32)
    for colour in tl.static_range(3):
        for dy in tl.static_range(3):
            for dx in tl.static_range(3):
                row, column = y + (dy - 1), x + (dx - 1)
                valid = (row >= 0) & (row < SIDE) & (column >= 0) & (column < SIDE)
                at = (frame * 3 + colour) * SIDE * SIDE + row * SIDE + column
                seen = tl.load(frames + at, mask=valid, other=0).to(tl.float32)
                weight = weights + image * 81 + (colour * 9 + dy * 3 + dx)
                red += seen * tl.load(weight)
                green += seen * tl.load(weight + 27)
                blue += seen * tl.load(weight + 54)
    corner = ((image * (SIDE + 2) + y + 1) * (SIDE + 4) + x + 1) * 4
    tl.store(out + corner, red.to(out.dtype.element_ty))
    tl.store(out + corner + 1, green.to(out.dtype.element_ty))
    tl.store(out + corner + 2, blue.to(out.dtype.element_ty))
