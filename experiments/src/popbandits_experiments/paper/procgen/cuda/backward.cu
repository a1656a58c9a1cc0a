// The trunk, backward: a convolution's gradients with respect to its input and to its filters, from one reading of
// both.
//
// Half of a block's warps compute the gradient of the input, with the filters in registers, the other half that of the
// filters, with the sums in registers. Blocks go on from image to image, and in the end each writes its share of the
// filters' gradient, [9][inputs][outputs] and the biases', to its own row: sums then do not depend on the order in
// which blocks end.
#include "convolution.cuh"

static constexpr int WARPS_A_SIDE = 4;
static constexpr int THREADS = 2 * WARPS_A_SIDE * WARP;

// A cell of the gradient after pooling, and which of the window's pixels won in each of its channels; 15 for none.
struct Window {
    uint4 gradient;
    uint2 winners;

    // Add this cell's gradients to `total`, where the pixel `slot` won.
    __device__ __forceinline__ void add_to(uint4& total, u32 slot) const {
        const uint4 part = chosen(slot);
        total.x = add_pairs(total.x, part.x), total.y = add_pairs(total.y, part.y);
        total.z = add_pairs(total.z, part.z), total.w = add_pairs(total.w, part.w);
    }

    // Return this cell's gradients where the pixel `slot` won, else 0.
    __device__ __forceinline__ uint4 chosen(u32 slot) const {
        const u32 first = won(winners.x, slot), second = won(winners.y, slot);
        return make_uint4(
            gradient.x & signs(first, 0), gradient.y & signs(first, 1), gradient.z & signs(second, 0),
            gradient.w & signs(second, 1)
        );
    }

    // Set the sign of the bytes that equal `slot`; bytes and slot are below 16.
    __device__ __forceinline__ static u32 won(u32 slots, u32 slot) {
        return 0x80808080u - (slots ^ slot * 0x01010101u);
    }

    // Return two numbers of 16 bits, each filled with the sign of a byte.
    __device__ __forceinline__ static u32 signs(u32 bytes, int pair) {
        return select_bytes(bytes, pair ? 0xbbaa : 0x9988);
    }
};

// Compute the gradient before pooling at the four pixels of a cell; a pixel gets the gradients of all windows that it won.
// `read(dy, dx)` returns the window of the cell, or of the next one to the right or below, unless there is none.
// `put(dy, dx, pixel)` is called for each pixel.
template <class Read, class Put>
__device__ __forceinline__ void unpool(bool right, bool below, Read read, Put put) {
    auto read_if = [&](bool there, int dy, int dx) {
        return there ? read(dy, dx) : Window{make_uint4(0, 0, 0, 0), make_uint2(0x0f0f0f0fu, 0x0f0f0f0fu)};
    };
    const Window here = read(0, 0), next = read_if(right, 0, 1), under = read_if(below, 1, 0),
                 across = read_if(right && below, 1, 1);
    // A window's slots are 3 ky + kx, and its middle, slot 4, is its own even pixel.
    put(0, 0, here.chosen(4));
    uint4 pixel = here.chosen(5);
    next.add_to(pixel, 3);
    put(0, 1, pixel);
    pixel = here.chosen(7);
    under.add_to(pixel, 1);
    put(1, 0, pixel);
    pixel = here.chosen(8);
    next.add_to(pixel, 6), under.add_to(pixel, 2), across.add_to(pixel, 0);
    put(1, 1, pixel);
}

// Writes the rows of the input's gradient: [+ add], 0 where the input was rectified.
template <int SIDE, bool MASK, bool ADD>
struct Back {
    u32 input, add;  // Addresses of the first row, for this lane.
    u32* out;
    int word;  // Index of the same in `out`.

    __device__ __forceinline__ static int cell(int row, int group, int half) {
        return row * SIDE + half * Tiles<SIDE>::second(SIDE) + group * SIDE * SIDE;
    }

    __device__ __forceinline__ void operator()(int row, Row<1>& totals) {
#pragma unroll
        for (int group = 0; group < 2; group++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float first = totals.at[0][group][2 * half], second = totals.at[0][group][2 * half + 1];
                if (ADD) {
                    const u32 added = shared_u32(add + cell(row, group, half) * CELL);
                    first += low(added), second += high(added);
                }
                u32 pair = pack(first, second);
                if (MASK) {
                    // The input is never negative: it is 0 where it was rectified.
                    const u32 seen = shared_u32(input + cell(row, group, half) * CELL);
                    pair &= (seen & 0xffffu ? 0xffffu : 0u) | (seen >> 16 ? 0xffff0000u : 0u);
                }
                out[word + cell(row, group, half) * 4] = pair;
            }
    }
};

// POOLED: `gradient` is that after the pooling.
template <int INPUTS, int OUTPUTS, int SIDE, int IMAGES, bool MASK, bool ADD, bool POOLED>
__device__ __forceinline__ void backward(
    u8* memory, const uint4* __restrict__ gradient, const uint2* __restrict__ winners, const uint4* __restrict__ x,
    const uint4* __restrict__ packed, const uint4* __restrict__ add, u32* __restrict__ out, float* __restrict__ shares,
    int stride, int images
) {
    using Layout = Bordered<SIDE>;
    using Division = Tiles<SIDE>;
    constexpr int AREA = SIDE * SIDE, PLANES_IN = INPUTS / 8, PLANES_OUT = OUTPUTS / 8;
    constexpr int ALL = IMAGES * Division::ACROSS * Division::ROWS, CELLS = IMAGES * PLANES_IN * AREA;
    u8* inputs = memory + IMAGES * Layout::bytes(OUTPUTS);
    const u32 at_gradient = shared_address(memory), at_input = shared_address(inputs);
    const int lane = lane_index(), g = lane / 4, t = lane % 4, warp = warp_index() % WARPS_A_SIDE;
    const bool of_filters = warp_index() >= WARPS_A_SIDE;
    clear_border<SIDE>(memory, IMAGES * PLANES_OUT);

    constexpr int HALVES = INPUTS / 16, GROUPS = WARPS_A_SIDE / HALVES;
    constexpr int ROWS = ALL / GROUPS < Division::ROWS ? ALL / GROUPS : Division::ROWS, STRIPS = Division::ROWS / ROWS;
    constexpr int PAIRS = HALVES * (OUTPUTS / 16), PARTS = WARPS_A_SIDE / PAIRS;
    constexpr int LONG = ALL / PARTS < Division::ROWS ? ALL / PARTS : Division::ROWS,
                  LONG_STRIPS = Division::ROWS / LONG;
    const int half = warp % HALVES, other_half = warp / HALVES % (OUTPUTS / 16);

    auto load = [&](int image) {
        if constexpr (POOLED) {
            constexpr int QUADS = AREA / 4, WIDTH = SIDE / 2;
            for (int i = threadIdx.x; i < IMAGES * PLANES_OUT * QUADS; i += THREADS) {
                const int plane = i / QUADS, row = i / WIDTH % WIDTH, column = i % WIDTH;
                uint4* target = reinterpret_cast<uint4*>(memory) + plane * Layout::PLANE + Layout::FIRST;
                const int cell = ((image * PLANES_OUT + plane) * WIDTH + row) * WIDTH + column;
                unpool(
                    column + 1 < WIDTH, row + 1 < WIDTH,
                    [&](int dy, int dx) {
                        const int at = cell + dy * WIDTH + dx;
                        return Window{__ldg(gradient + at), __ldg(winners + at)};
                    },
                    [&](int dy, int dx, const uint4& pixel) {
                        target[(2 * row + dy) * Layout::ROW + 2 * column + dx] = pixel;
                    }
                );
            }
        } else {
            copy_planes<SIDE>(at_gradient, gradient + image * PLANES_OUT * AREA, IMAGES * PLANES_OUT);
        }
        for (int i = threadIdx.x; i < CELLS; i += THREADS) {
            copy_cell(at_input + i * CELL, x + image * PLANES_IN * AREA + i);
            if (ADD) copy_cell(at_input + (CELLS + i) * CELL, add + image * PLANES_IN * AREA + i);
        }
        finish_copies();
        __syncthreads();
    };

    if (!of_filters) {
        Filters<OUTPUTS> filters;
        filters.load(packed, HALVES, half);
        const float nothing[2][2] = {};
#pragma unroll 1
        for (int image = blockIdx.x * IMAGES; image < images; image += gridDim.x * IMAGES) {
            load(image);
#pragma unroll 1
            for (int unit = warp / HALVES; unit < ALL / ROWS; unit += GROUPS) {
                const int row = unit % STRIPS * ROWS, tile = unit / STRIPS % Division::ACROSS;
                const int which = unit / STRIPS / Division::ACROSS;
                const int cell = ((which * PLANES_IN + half * 2) * SIDE + row) * SIDE + tile * 16 + g;
                Back<SIDE, MASK, ADD> back;
                back.input = at_input + cell * CELL + t * 4;
                back.add = back.input + CELLS * CELL;
                back.out = out, back.word = (image * PLANES_IN * AREA + cell) * 4 + t;
                const int start = which * PLANES_OUT * Layout::PLANE + Layout::FIRST + row * Layout::ROW + tile * 16;
                convolve<OUTPUTS, 1, Layout::ROW, Layout::PLANE>(
                    at_gradient + start * CELL + pixels_first(Division::second(Layout::ROW), Layout::PLANE), filters,
                    nothing, ROWS, back
                );
            }
            __syncthreads();
        }
    } else {
        FilterGradient sums;
#pragma unroll 1
        for (int image = blockIdx.x * IMAGES; image < images; image += gridDim.x * IMAGES) {
            load(image);
#pragma unroll 1
            for (int unit = warp / PAIRS; unit < ALL / LONG; unit += PARTS) {
                const int row = unit % LONG_STRIPS * LONG, tile = unit / LONG_STRIPS % Division::ACROSS;
                const int which = unit / LONG_STRIPS / Division::ACROSS;
                const int input = ((which * PLANES_IN + half * 2) * SIDE + row) * SIDE + tile * 16;
                const int start = (which * PLANES_OUT + other_half * 2) * Layout::PLANE + Layout::FIRST +
                                  row * Layout::ROW + tile * 16;
                sums.add<SIDE, Layout::ROW>(
                    at_input + input * CELL + planes_first(Division::second(SIDE), AREA),
                    at_gradient + start * CELL + pixels_first(Division::second(Layout::ROW), Layout::PLANE), LONG
                );
            }
            __syncthreads();
        }
        // The warps that share a pair of channel groups add up their parts, one after another.
        float* whole = reinterpret_cast<float*>(memory);
#pragma unroll 1
        for (int part = 0; part < PARTS; part++) {
            if (warp / PAIRS == part) {
                auto put = [&](float* to, float number) { *to = part == 0 ? number : *to + number; };
#pragma unroll
                for (int tap = 0; tap < 9; tap++)
#pragma unroll
                    for (int group = 0; group < 2; group++)
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            const int from = half * 16 + g + i / 2 * 8,
                                      to = other_half * 16 + group * 8 + 2 * t + i % 2;
                            put(whole + (tap * INPUTS + from) * OUTPUTS + to, sums.at[tap][group][i]);
                        }
                if (half == 0 && g == 0)
#pragma unroll
                    for (int group = 0; group < 2; group++)
#pragma unroll
                        for (int i = 0; i < 2; i++)
                            put(whole + 9 * INPUTS * OUTPUTS + other_half * 16 + group * 8 + 2 * t + i,
                                sums.bias[group][i]);
            }
            barrier(1, WARPS_A_SIDE * WARP);
        }
        float* share = shares + blockIdx.x * stride;
        for (int i = threadIdx.x - WARPS_A_SIDE * WARP; i < (9 * INPUTS + 1) * OUTPUTS; i += WARPS_A_SIDE * WARP)
            share[i] = whole[i];
    }
}

#define BACK(NAME, INPUTS, OUTPUTS, SIDE, IMAGES, ADD)                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) NAME(                                               \
        const uint4* __restrict__ gradient, const uint4* __restrict__ x, const uint4* __restrict__ packed,       \
        const uint4* __restrict__ add, u32* __restrict__ out, float* __restrict__ shares, int stride, int images \
    ) {                                                                                                          \
        SHARED_MEMORY(memory);                                                                                   \
        backward<INPUTS, OUTPUTS, SIDE, IMAGES, true, ADD, false>(                                               \
            memory, gradient, nullptr, x, packed, add, out, shares, stride, images                               \
        );                                                                                                       \
    }

#define BACK_POOL(NAME, INPUTS, OUTPUTS, SIDE, IMAGES)                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) NAME(                                                  \
        const uint4* __restrict__ gradient, const uint2* __restrict__ winners, const uint4* __restrict__ x,         \
        const uint4* __restrict__ packed, u32* __restrict__ out, float* __restrict__ shares, int stride, int images \
    ) {                                                                                                             \
        SHARED_MEMORY(memory);                                                                                      \
        backward<INPUTS, OUTPUTS, SIDE, IMAGES, false, false, true>(                                                \
            memory, gradient, winners, x, packed, nullptr, out, shares, stride, images                              \
        );                                                                                                          \
    }

BACK(back_32, 16, 16, 32, 1, false)
BACK(back_32_add, 16, 16, 32, 1, true)
BACK(back_16, 32, 32, 16, 2, false)
BACK(back_16_add, 32, 32, 16, 2, true)
BACK(back_8, 32, 32, 8, 4, false)
BACK(back_8_add, 32, 32, 8, 4, true)
BACK_POOL(back_pool_32, 16, 32, 32, 1)
BACK_POOL(back_pool_16, 32, 32, 16, 2)

// The first convolution has no input gradient. Its filters' gradient is summed over strips of 16 rows of the gradient
// before pooling: [dy][4 dx + colour][outputs], then the biases. The next strip's numbers are copied meanwhile.
//
// In a row of the gradient the even pixels come first, then the odd ones, and a warp takes either. A load begins at a
// multiple of 16 bytes, two pixels of a frame: four pixels from there on are the neighbours of an even pixel, one to
// spare, and those of the odd one after it, with the spare one first.
static constexpr int STRIP = 16, FRAME_ROW = 68, FRAME_CELLS = 66 * FRAME_ROW / 2;  // A cell is two pixels of a frame.
static constexpr int FRAME_WARPS = 16, SUMS = 3 * 16 * 16 + 16;

extern "C" __global__ void __launch_bounds__(FRAME_WARPS* WARP, 2) back_frames(
    const uint4* __restrict__ gradient, const uint4* __restrict__ winners, const uint4* __restrict__ frames,
    float* __restrict__ shares, int stride, int images
) {
    constexpr int SIDE = 64, WIDTH = SIDE / 2, PLANE = STRIP * SIDE, STRIPS = SIDE / STRIP, DOWN = FRAME_ROW / 2 * CELL;
    constexpr int ROWS = STRIP / (FRAME_WARPS / 4), POOLED_ROWS = STRIP / 2;
    constexpr int WINDOWS = (POOLED_ROWS + 1) * WIDTH;  // Of a plane: a strip's, and the row below it.
    constexpr int GRADIENTS = (STRIP + 2) * DOWN, WINNERS = GRADIENTS + 2 * WINDOWS * CELL;  // Where they are in a copy.
    constexpr int COPY = WINNERS + 2 * WINDOWS * CELL / 2;
    SHARED_MEMORY(memory);
    u8* copies = memory + 2 * PLANE * CELL;
    const int units = images * STRIPS;
    const int lane = lane_index(), g = lane / 4, t = lane % 4, tile = warp_index() % 4, first = warp_index() / 4 * ROWS;
    const int half = tile % 2, odd = tile / 2;
    const u32 at_copies = shared_address(copies);
    const u32 at_gradient = shared_address(memory) + (first * SIDE + tile * 16) * CELL + planes_first(8, PLANE);
    const u32 at_pixels = at_copies + first * DOWN + (half * 16 + lane % 16 + lane / 16) * CELL;

    auto begin_copies = [&](int unit, int copy) {
        if (unit >= units) return;
        const int image = unit / STRIPS, strip = unit % STRIPS;
        const int there = strip + 1 < STRIPS ? WINDOWS : WINDOWS - WIDTH;  // There is no row below the last.
        const u32 to = at_copies + copy * COPY;
        const uint4* frame = frames + image * FRAME_CELLS + strip * STRIP * (FRAME_ROW / 2);
        for (int i = threadIdx.x; i < GRADIENTS / CELL; i += FRAME_WARPS * WARP) copy_cell(to + i * CELL, frame + i);
#pragma unroll
        for (int plane = 0; plane < 2; plane++) {
            const int cell = ((image * 2 + plane) * WIDTH + strip * POOLED_ROWS) * WIDTH, i = threadIdx.x;
            if (i < there) copy_cell(to + GRADIENTS + (plane * WINDOWS + i) * CELL, gradient + cell + i);
            if (i < there / 2) copy_cell(to + WINNERS + (plane * WINDOWS / 2 + i) * CELL, winners + cell / 2 + i);
        }
    };

    float sums[3][2][4] = {}, bias[4] = {};
    int copy = 0;
    begin_copies(blockIdx.x, copy);
#pragma unroll 1
    for (int unit = blockIdx.x; unit < units; unit += gridDim.x, copy ^= 1) {
        finish_copies();
        __syncthreads();  // Now all copies are there, and nobody needs the strip before.
        begin_copies(unit + gridDim.x, copy ^ 1);
        {
            const int plane = threadIdx.x / (PLANE / 4), row = threadIdx.x / WIDTH % POOLED_ROWS,
                      column = threadIdx.x % WIDTH;
            const int cell = plane * WINDOWS + row * WIDTH + column;
            const uint4* gradients = reinterpret_cast<const uint4*>(copies + copy * COPY + GRADIENTS) + cell;
            const uint2* slots = reinterpret_cast<const uint2*>(copies + copy * COPY + WINNERS) + cell;
            uint4* target = reinterpret_cast<uint4*>(memory) + plane * PLANE + 2 * row * SIDE + column;
            unpool(
                column + 1 < WIDTH, row + 1 < POOLED_ROWS || unit % STRIPS + 1 < STRIPS,
                [&](int dy, int dx) {
                    return Window{gradients[dy * WIDTH + dx], slots[dy * WIDTH + dx]};
                },
                [&](int dy, int dx, const uint4& pixel) { target[dy * SIDE + dx * WIDTH] = pixel; }
            );
        }
        __syncthreads();
        const u32 pixels = at_pixels + copy * COPY;
        u32 seen[3][4];
        load_transposed(seen[0], pixels);
        load_transposed(seen[1], pixels + DOWN);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            u32 left[4];
            load_transposed(left, at_gradient + row * SIDE * CELL);
            load_transposed(seen[(row + 2) % 3], pixels + (row + 2) * DOWN);
#pragma unroll
            for (int dy = 0; dy < 3; dy++)
#pragma unroll
                for (int group = 0; group < 2; group++)
                    multiply(
                        sums[dy][group], left, seen[(row + dy) % 3][2 * group], seen[(row + dy) % 3][2 * group + 1]
                    );
            multiply(bias, left, 0x3f803f80u, 0x3f803f80u);
        }
    }
    __syncthreads();
    float* whole = reinterpret_cast<float*>(memory);
#pragma unroll 1
    for (int warp = 0; warp < FRAME_WARPS; warp++) {
        if (warp_index() == warp) {
            auto put = [&](float* to, float number) { *to = warp == 0 ? number : *to + number; };
#pragma unroll
            for (int dy = 0; dy < 3; dy++)
#pragma unroll
                for (int group = 0; group < 2; group++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const int column = group * 8 + 2 * t + i % 2 - 4 * odd;
                        if (column >= 0) put(whole + (dy * 16 + column) * 16 + g + i / 2 * 8, sums[dy][group][i]);
                    }
            if (t == 0) put(whole + 3 * 16 * 16 + g, bias[0]), put(whole + 3 * 16 * 16 + g + 8, bias[2]);
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < SUMS; i += FRAME_WARPS * WARP) shares[blockIdx.x * stride + i] = whole[i];
}
