// 3 x 3 convolutions by rows, and the gradient of their filters.
//
// A warp goes down a strip of the image, 16 pixels wide. A row of its input is loaded three times, once for each column
// of the filter, and each time is used for the three rows of the result that it contributes to. So nearly all
// instructions are products, and their filters stay in registers.
//
// | symbol | meaning |
// |---|---|
// | g, t | lane / 4, lane % 4: the row and the pair of columns of a lane's part of a product |
// | tile | 16 pixels of a row; where images are 8 wide, 8 pixels of a row and 8 of the row four below it |
#pragma once
#include "units.cuh"

// How an image of this side is divided into tiles; distances are in cells of a layout whose rows have ROW cells.
template <int SIDE>
struct Tiles {
    static constexpr int ACROSS = SIDE >= 16 ? SIDE / 16 : 1;
    static constexpr int ROWS = SIDE >= 16 ? SIDE : SIDE / 2;
    // From pixel 0 to pixel 8.
    __device__ static constexpr int second(int row) { return SIDE >= 16 ? 8 : SIDE / 2 * row; }
};

__device__ __forceinline__ int lane_index() { return threadIdx.x % WARP; }
__device__ __forceinline__ int warp_index() { return threadIdx.x / WARP; }

// Return the offset, in bytes, of the row of a matrix that this lane names when a tile is loaded with its pixels as
// rows (or, transposed, as pairs of columns of the right factor): pixels 0-7 and 8-15 of a plane, then of the next.
__device__ __forceinline__ int pixels_first(int second, int plane) {
    const int lane = lane_index();
    return (lane % 8 + (lane / 8 % 2) * second + lane / 16 * plane) * CELL;
}

// The same when a transposed tile is the left factor: both planes of pixels 0-7, then of 8-15.
__device__ __forceinline__ int planes_first(int second, int plane) {
    const int lane = lane_index();
    return (lane % 8 + lane / 16 * second + (lane / 8 % 2) * plane) * CELL;
}

// The same as `pixels_first`, but matrices are even and odd pixels: a lane then has both pixels of a pooling window.
__device__ __forceinline__ int even_first(int plane) {
    const int lane = lane_index();
    return (lane % 8 * 2 + lane / 8 % 2 + lane / 16 * plane) * CELL;
}

// Filters from INPUTS channels to 16 of them, as fragments.
template <int INPUTS>
struct Filters {
    static constexpr int STEPS = INPUTS / 16;
    u32 at[9][STEPS][4];

    // Load the filters to outputs 16 `group` and following, of `groups` times 16.
    __device__ __forceinline__ void load(const uint4* __restrict__ packed, int groups, int group) {
#pragma unroll
        for (int tap = 0; tap < 9; tap++)
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                const uint4 four = __ldg(packed + ((tap * STEPS + step) * groups + group) * WARP + lane_index());
                at[tap][step][0] = four.x, at[tap][step][1] = four.y, at[tap][step][2] = four.z,
                at[tap][step][3] = four.w;
            }
    }
};

// Totals of one row of a strip: its tiles, two groups of eight outputs, and a lane's four numbers.
template <int TILES>
struct Row {
    float at[TILES][2][4];

    __device__ __forceinline__ void set(const float (&bias)[2][2]) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int group = 0; group < 2; group++)
#pragma unroll
                for (int i = 0; i < 4; i++) at[tile][group][i] = bias[group][i % 2];
    }
};

// Add what one row of the input contributes to the rows of the result above it, beside it and below it.
template <int INPUTS, int TILES, int PLANE, bool ABOVE, bool BESIDE, bool BELOW>
__device__ __forceinline__ void add_row(
    u32 address, const Filters<INPUTS>& filters, Row<TILES>& above, Row<TILES>& beside, Row<TILES>& below
) {
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int dx = 0; dx < 3; dx++)
#pragma unroll
            for (int step = 0; step < INPUTS / 16; step++) {
                u32 left[4];
                load_matrices(left, address + (tile * 16 + dx - 1 + step * 2 * PLANE) * CELL);
#pragma unroll
                for (int group = 0; group < 2; group++) {
                    // A row of the result is the row of the input, plus 1, minus the filter's row dy.
                    if (ABOVE)
                        multiply(
                            above.at[tile][group], left, filters.at[6 + dx][step][2 * group],
                            filters.at[6 + dx][step][2 * group + 1]
                        );
                    if (BESIDE)
                        multiply(
                            beside.at[tile][group], left, filters.at[3 + dx][step][2 * group],
                            filters.at[3 + dx][step][2 * group + 1]
                        );
                    if (BELOW)
                        multiply(
                            below.at[tile][group], left, filters.at[dx][step][2 * group],
                            filters.at[dx][step][2 * group + 1]
                        );
                }
            }
}

// Compute `rows` rows of a convolution; call finish(row, totals) for each. `address` is that of the tile in the first
// of these rows, of the layout with rows of ROW and planes of PLANE cells, plus this lane's offset.
template <int INPUTS, int TILES, int ROW, int PLANE, class Finish>
__device__ __forceinline__ void convolve(
    u32 address, const Filters<INPUTS>& filters, const float (&bias)[2][2], int rows, Finish& finish
) {
    constexpr int DOWN = ROW * CELL;
    Row<TILES> above, beside, below;
    below.set(bias);
    add_row<INPUTS, TILES, PLANE, false, false, true>(address - DOWN, filters, above, beside, below);
    beside = below;
    if (rows == 1) {
        add_row<INPUTS, TILES, PLANE, false, true, false>(address, filters, above, beside, below);
        above = beside;
    } else {
        below.set(bias);
        add_row<INPUTS, TILES, PLANE, false, true, true>(address, filters, above, beside, below);
        above = beside, beside = below;
#pragma unroll 1
        for (int row = 1; row < rows - 1; row++) {
            address += DOWN;
            below.set(bias);
            add_row<INPUTS, TILES, PLANE, true, true, true>(address, filters, above, beside, below);
            finish(row - 1, above);
            above = beside, beside = below;
        }
        address += DOWN;
        add_row<INPUTS, TILES, PLANE, true, true, false>(address, filters, above, beside, below);
        finish(rows - 2, above);
        above = beside;
    }
    address += DOWN;
    add_row<INPUTS, TILES, PLANE, true, false, false>(address, filters, above, beside, below);
    finish(rows - 1, above);
}

// Gradient of the filters from 16 inputs to 16 outputs, [9][inputs as rows][outputs as columns], and of the biases.
struct FilterGradient {
    float at[9][2][4] = {};
    float bias[2][4] = {};

    // Add what one row of the gradient contributes with the rows of the input above it, beside it and below it.
    template <bool ABOVE, bool BESIDE, bool BELOW>
    __device__ __forceinline__ void add_row(
        u32 gradient, const u32 (&above)[4], const u32 (&beside)[4], const u32 (&below)[4]
    ) {
#pragma unroll
        for (int dx = 0; dx < 3; dx++) {
            u32 right[4];
            // An input at x contributes to the output at x + 1 - dx.
            load_transposed(right, gradient + (1 - dx) * CELL);
#pragma unroll
            for (int group = 0; group < 2; group++) {
                // A row of the input is the row of the gradient, minus 1, plus the filter's row dy.
                if (ABOVE) multiply(at[dx][group], above, right[2 * group], right[2 * group + 1]);
                if (BESIDE) multiply(at[3 + dx][group], beside, right[2 * group], right[2 * group + 1]);
                if (BELOW) multiply(at[6 + dx][group], below, right[2 * group], right[2 * group + 1]);
                if (BESIDE && dx == 1) {
                    const u32 ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
                    multiply(bias[group], ones, right[2 * group], right[2 * group + 1]);
                }
            }
        }
    }

    // Add the products of `rows` rows of the input with the gradients around them. Both addresses are those of the tile
    // in the first of these rows, plus this lane's offsets; ROWS of input and gradient have these numbers of cells.
    template <int INPUT_ROW, int GRADIENT_ROW>
    __device__ __forceinline__ void add(u32 input, u32 gradient, int rows) {
        u32 above[4], beside[4], below[4];
        load_transposed(below, input);
        add_row<false, false, true>(gradient - GRADIENT_ROW * CELL, above, beside, below);
        shift(beside, below);
        input += INPUT_ROW * CELL;
        load_transposed(below, input);
        add_row<false, true, true>(gradient, above, beside, below);
#pragma unroll 1
        for (int row = 1; row < rows - 1; row++) {
            gradient += GRADIENT_ROW * CELL, input += INPUT_ROW * CELL;
            shift(above, beside), shift(beside, below);
            load_transposed(below, input);
            add_row<true, true, true>(gradient, above, beside, below);
        }
        shift(above, beside), shift(beside, below);
        gradient += GRADIENT_ROW * CELL;
        add_row<true, true, false>(gradient, above, beside, below);
        shift(above, beside);
        gradient += GRADIENT_ROW * CELL;
        add_row<true, false, false>(gradient, above, beside, below);
    }

    __device__ __forceinline__ static void shift(u32 (&to)[4], const u32 (&from)[4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) to[i] = from[i];
    }
};

// Set the cells around images in shared memory to 0.
template <int SIDE>
__device__ __forceinline__ void clear_border(u8* planes, int count) {
    using Layout = Bordered<SIDE>;
    // The rows above and below, the cell before each row, the last one.
    constexpr int CELLS = 2 * Layout::ROW + SIDE + 1;
    for (int i = threadIdx.x; i < count * CELLS; i += blockDim.x) {
        const int plane = i / CELLS, at = i % CELLS;
        const int cell = at < Layout::ROW          ? at
                         : at < Layout::ROW + SIDE ? (at - Layout::ROW + 1) * Layout::ROW
                                                   : (SIDE + 1) * Layout::ROW + at - Layout::ROW - SIDE;
        *reinterpret_cast<uint4*>(planes + (plane * Layout::PLANE + cell) * CELL) = make_uint4(0, 0, 0, 0);
    }
}

// Begin to copy planes of images from global memory to the inside of bordered ones.
template <int SIDE>
__device__ __forceinline__ void copy_planes(u32 to, const uint4* __restrict__ from, int count) {
    using Layout = Bordered<SIDE>;
    for (int i = threadIdx.x; i < count * SIDE * SIDE; i += blockDim.x) {
        const int plane = i / (SIDE * SIDE), y = i / SIDE % SIDE, x = i % SIDE;
        copy_cell(to + (plane * Layout::PLANE + Layout::FIRST + y * Layout::ROW + x) * CELL, from + i);
    }
}
