# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
"""Triton kernels for the trunk: 3 x 3 convolutions over few channels, fused with the operations around them.

Tensors are channels last, (n, H, W, C), in bfloat16 or float32. Products of float32 are as exact as three passes of
tf32; sums are always float32. Along a row of the image, a pixel and its neighbours at -1, +1 and +2 are 4 C consecutive
numbers. So a tile of pixels times one row of the filter can be one product over K = 4 C, whose last quarter has weights
of 0. Filters are packed as (3, 4, C_in, C_out) for that.

Only the frames have a border of zeros, (n, H + 2, W + 4, 4), so that their neighbours need no bounds check.
"""

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


@triton.jit
def _tile(
    x,
    pixel,
    dy: tl.constexpr,
    first: tl.constexpr,
    SPAN: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    BORDERED: tl.constexpr,
):
    """Load the pixels' neighbours in row dy - 1, columns first - 1 to first + SPAN - 2; 0 outside the image."""
    k = tl.arange(0, SPAN * C)
    if BORDERED:
        corner = (pixel // (H * W) * (H + 2) + (pixel // W) % H) * (W + 4) + pixel % W
        return tl.load(x + (corner + (dy * (W + 4) + first))[:, None] * C + k[None, :])
    row = (pixel // W) % H + (dy - 1)
    column = (pixel % W)[:, None] + (k // C + (first - 1))[None, :]
    valid = ((row >= 0) & (row < H))[:, None] & (column >= 0) & (column < W)
    at = (pixel + ((dy - 1) * W + (first - 1)))[:, None] * C + k[None, :]
    return tl.load(x + at, mask=valid, other=0.0)


@triton.jit
def _dot(left, right, total):
    return tl.dot(left, right, total, input_precision="tf32x3")


@triton.jit
def convolve(
    x,
    filters,
    bias,
    add,
    out,
    pixels,
    H: tl.constexpr,
    W: tl.constexpr,
    C_IN: tl.constexpr,
    C_OUT: tl.constexpr,
    SPAN: tl.constexpr,
    BLOCK: tl.constexpr,
    BORDERED: tl.constexpr,
    HAS_ADD: tl.constexpr,
    RELU: tl.constexpr,
):
    """Compute out = x * filters + bias [+ add] [rectified]."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (index < pixels)[:, None]
    pixel = tl.minimum(index, pixels - 1)
    k = tl.arange(0, SPAN * C_IN)
    channel = tl.arange(0, C_OUT)
    total = tl.zeros((BLOCK, C_OUT), tl.float32)
    for dy in tl.static_range(3):
        for first in tl.static_range(0, 3, SPAN):
            seen = _tile(x, pixel, dy, first, SPAN, H, W, C_IN, BORDERED)
            weights = tl.load(filters + ((dy * 4 + first) * C_IN + k)[:, None] * C_OUT + channel[None, :])
            total = _dot(seen, weights, total)
    at = index[:, None] * C_OUT + channel[None, :]
    total += tl.load(bias + channel)[None, :]
    if HAS_ADD:
        total += tl.load(add + at, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        total = tl.maximum(total, 0.0)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def convolve_back(
    gradient,
    filters,
    x,
    add,
    out,
    shares,
    row_stride,
    pixels,
    H: tl.constexpr,
    W: tl.constexpr,
    C_IN: tl.constexpr,
    C_OUT: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS_A_PROGRAM: tl.constexpr,
    HAS_ADD: tl.constexpr,
    RECTIFIED: tl.constexpr,
):
    """Compute out = gradient * flipped filters [+ add] [where x > 0, else 0], and the filters' gradient.

    A pixel's gradient is summed from the same neighbours that its value contributed to, so each tile is read once for
    both. The filters' gradient is packed like the flipped filters, (3, 4, C_out, C_in), followed by the gradient of the
    biases; each program writes its share to its own row.
    """
    program = tl.program_id(0)
    channel_in, channel_out = tl.arange(0, C_IN), tl.arange(0, C_OUT)
    k = tl.arange(0, 4 * C_OUT)
    packed = k[:, None] * C_IN + channel_in[None, :]
    weights_above = tl.load(filters + packed)
    weights_level = tl.load(filters + 4 * C_OUT * C_IN + packed)
    weights_below = tl.load(filters + 8 * C_OUT * C_IN + packed)
    above = tl.zeros((4 * C_OUT, C_IN), tl.float32)
    level = tl.zeros((4 * C_OUT, C_IN), tl.float32)
    below = tl.zeros((4 * C_OUT, C_IN), tl.float32)
    bias = tl.zeros((BLOCK, C_OUT), tl.float32)
    for block in range(BLOCKS_A_PROGRAM):
        index = (program * BLOCKS_A_PROGRAM + block) * BLOCK + tl.arange(0, BLOCK)
        inside = (index < pixels)[:, None]
        pixel = tl.minimum(index, pixels - 1)
        at = index[:, None] * C_IN + channel_in[None, :]
        value = tl.load(x + at, mask=inside, other=0.0)
        here = gradient + index[:, None] * C_OUT + channel_out[None, :]
        arrived = tl.load(here, mask=inside, other=0.0)
        if HAS_ADD:
            added = tl.load(add + at, mask=inside, other=0.0)
        total = tl.zeros((BLOCK, C_IN), tl.float32)
        from_above = _tile(gradient, pixel, 0, 0, 4, H, W, C_OUT, False)
        from_level = _tile(gradient, pixel, 1, 0, 4, H, W, C_OUT, False)
        from_below = _tile(gradient, pixel, 2, 0, 4, H, W, C_OUT, False)
        total = _dot(from_above, weights_above, total)
        above = _dot(tl.trans(from_above), value, above)
        total = _dot(from_level, weights_level, total)
        level = _dot(tl.trans(from_level), value, level)
        total = _dot(from_below, weights_below, total)
        below = _dot(tl.trans(from_below), value, below)
        bias += arrived.to(tl.float32)
        if HAS_ADD:
            total += added.to(tl.float32)
        if RECTIFIED:
            total = tl.where(value > 0, total, 0.0)
        tl.store(out + at, total.to(out.dtype.element_ty), mask=inside)
    row = shares + program * row_stride
    tl.store(row + packed, above)
    tl.store(row + 4 * C_OUT * C_IN + packed, level)
    tl.store(row + 8 * C_OUT * C_IN + packed, below)
    tl.store(row + 12 * C_OUT * C_IN + channel_out, tl.sum(bias, 0))


@triton.jit
def pool(
    x,
    out,
    winner,
    pixels,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the rectified maximum over 3 x 3 windows with stride 2, and its (first) index in the window."""
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # In the result, H / 2 by W / 2.
    inside = pixel < pixels
    channel = tl.arange(0, C)
    row, column, image = (pixel // (W // 2)) % (H // 2), pixel % (W // 2), pixel // (H * W // 4)
    best = tl.full((BLOCK, C), float("-inf"), tl.float32)
    slot = tl.zeros((BLOCK, C), tl.int32)
    for ky in tl.static_range(3):
        for kx in tl.static_range(3):
            y, z = 2 * row + (ky - 1), 2 * column + (kx - 1)  # Never beyond the lower or right edge.
            valid = inside & (y >= 0) & (z >= 0)
            at = (((image * H + y) * W + z) * C)[:, None] + channel[None, :]
            value = tl.load(x + at, mask=valid[:, None], other=float("-inf")).to(tl.float32)
            slot = tl.where(value > best, ky * 3 + kx, slot)
            best = tl.maximum(best, value)
    at = pixel[:, None] * C + channel[None, :]
    tl.store(out + at, tl.maximum(best, 0.0).to(out.dtype.element_ty), mask=inside[:, None])
    tl.store(winner + at, slot.to(tl.uint8), mask=inside[:, None])


@triton.jit
def unpool(
    gradient,
    winner,
    out,
    pixels,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the gradient before pooling (n, H, W, C): a pixel gets the gradients of all windows that it won."""
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = tl.arange(0, C)
    inside = pixel < pixels
    y, x, image = (pixel // W) % H, pixel % W, pixel // (H * W)
    total = tl.zeros((BLOCK, C), tl.float32)
    for up in tl.static_range(2):
        for left in tl.static_range(2):
            # Along an axis, an even pixel is in its own window only, an odd one in two.
            row, column = (y + 1) // 2 - up, (x + 1) // 2 - left
            ky, kx = y - 2 * row + 1, x - 2 * column + 1
            valid = inside & (row >= 0) & (row < H // 2) & (ky < 3) & (column >= 0) & (column < W // 2) & (kx < 3)
            at = (((image * (H // 2) + row) * (W // 2) + column) * C)[:, None] + channel[None, :]
            won = tl.load(winner + at, mask=valid[:, None], other=9).to(tl.int32) == (ky * 3 + kx)[:, None]
            total += tl.where(won, tl.load(gradient + at, mask=valid[:, None], other=0.0).to(tl.float32), 0.0)
    tl.store(out + pixel[:, None] * C + channel[None, :], total.to(out.dtype.element_ty), mask=inside[:, None])


@triton.jit
def _store_sum(row, products, slot: tl.constexpr, BLOCK: tl.constexpr, C_OUT: tl.constexpr):
    """Store the sum over pixels, (C_out, 4), at its index in the packed filters, (4, C_out)."""
    total = tl.sum(tl.reshape(products, (BLOCK, C_OUT, 4)), 0)
    at = (slot * 4 + tl.arange(0, 4))[None, :] * C_OUT + tl.arange(0, C_OUT)[:, None]
    tl.store(row + at, total)


@triton.jit
def frame_filter_gradient(
    frames,
    gradient,
    winner,
    shares,
    row_stride,
    pixels,
    H: tl.constexpr,
    W: tl.constexpr,
    C_OUT: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS_A_PROGRAM: tl.constexpr,
):
    """Compute shares of the gradient of the first convolution's filters (3, 4, 4, C_out) and biases.

    The input is the gradient after pooling. Each value belongs to the pixel that won its window in its channel.
    """
    program = tl.program_id(0)
    lane = tl.arange(0, BLOCK * C_OUT)
    colour = tl.arange(0, 4)[None, :]
    a = tl.zeros((BLOCK * C_OUT, 4), tl.float32)
    b, c, d, e, f, g, h, i = a, a, a, a, a, a, a, a
    bias = tl.zeros((BLOCK * C_OUT,), tl.float32)
    for block in range(BLOCKS_A_PROGRAM):
        start = (program * BLOCKS_A_PROGRAM + block) * BLOCK  # In the result of the pooling, H / 2 by W / 2.
        inside = start + lane // C_OUT < pixels
        pixel = tl.minimum(start + lane // C_OUT, pixels - 1)
        arrived = tl.load(gradient + start * C_OUT + lane, mask=inside, other=0.0).to(tl.float32)
        slot = tl.load(winner + start * C_OUT + lane, mask=inside, other=4).to(tl.int32)
        y = 2 * ((pixel // (W // 2)) % (H // 2)) + slot // 3 - 1
        column = 2 * (pixel % (W // 2)) + slot % 3 - 1
        seen = frames + ((pixel // (H * W // 4) * (H + 2) + y) * (W + 4) + column)[:, None] * 4 + colour
        weight = arrived[:, None]
        a += weight * tl.load(seen).to(tl.float32)
        b += weight * tl.load(seen + 4).to(tl.float32)
        c += weight * tl.load(seen + 8).to(tl.float32)
        d += weight * tl.load(seen + (W + 4) * 4).to(tl.float32)
        e += weight * tl.load(seen + (W + 4) * 4 + 4).to(tl.float32)
        f += weight * tl.load(seen + (W + 4) * 4 + 8).to(tl.float32)
        g += weight * tl.load(seen + (W + 4) * 8).to(tl.float32)
        h += weight * tl.load(seen + (W + 4) * 8 + 4).to(tl.float32)
        i += weight * tl.load(seen + (W + 4) * 8 + 8).to(tl.float32)
        bias += arrived
    row = shares + program * row_stride
    _store_sum(row, a, 0, BLOCK, C_OUT)
    _store_sum(row, b, 1, BLOCK, C_OUT)
    _store_sum(row, c, 2, BLOCK, C_OUT)
    _store_sum(row, d, 4, BLOCK, C_OUT)
    _store_sum(row, e, 5, BLOCK, C_OUT)
    _store_sum(row, f, 6, BLOCK, C_OUT)
    _store_sum(row, g, 8, BLOCK, C_OUT)
    _store_sum(row, h, 9, BLOCK, C_OUT)
    _store_sum(row, i, 10, BLOCK, C_OUT)
    tl.store(row + 48 * C_OUT + tl.arange(0, C_OUT), tl.sum(tl.reshape(bias, (BLOCK, C_OUT)), 0))
