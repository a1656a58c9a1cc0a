// A section of the trunk, forward: a block computes a section of a few images, from input to output, in shared memory.
//
// a = relu(pool(conv(x))), h = relu(conv(a)), b = relu(a + conv(h)), j = relu(conv(b)), y = b + conv(j). b and y
// replace a where it lies, and h and j replace x. For an update, all of them and the pooling's winners are also written
// to global memory; act.cu computes all three sections of an image in one block.
#pragma once
#include "convolution.cuh"

static constexpr int FRAME_SIDE = 64, FRAME_ROW = FRAME_SIDE + 4, FRAME_PIXEL = 8;  // Row in pixels, pixel in bytes.
static constexpr int FRAME_BYTES = (FRAME_SIDE + 2) * FRAME_ROW * FRAME_PIXEL;
static constexpr float LOWEST = -3.0e38f;

// Shapes of a section: side of its input, channels, and where its parameters and packed filters are.
template <int SECTION>
struct Shape {
    static constexpr int SIDE = 128 >> SECTION;
    static constexpr int POOLED = SIDE / 2;
    static constexpr int INPUTS = SECTION == 1 ? 3 : SECTION == 2 ? 16 : 32;
    static constexpr int CHANNELS = SECTION == 1 ? 16 : 32;
    static constexpr int IN_BYTES = SECTION == 1 ? Bordered<POOLED>::bytes(CHANNELS) : Bordered<SIDE>::bytes(INPUTS);
    static constexpr int OUT_BYTES = Bordered<POOLED>::bytes(CHANNELS);
    static_assert(SECTION != 1 || FRAME_BYTES <= IN_BYTES, "h replaces the frame");

    static constexpr int FIRST_PARAMETERS = CHANNELS * INPUTS * 9 + CHANNELS;
    static constexpr int OTHER_PARAMETERS = CHANNELS * CHANNELS * 9 + CHANNELS;
    static constexpr int PARAMETERS = FIRST_PARAMETERS + 4 * OTHER_PARAMETERS;
    __device__ static constexpr int bias(int convolution) {
        return FIRST_PARAMETERS + convolution * OTHER_PARAMETERS - CHANNELS;
    }
    static constexpr int FIRST_FRAGMENTS = SECTION == 1 ? 3 * WARP : 9 * (INPUTS / 16) * (CHANNELS / 16) * WARP;
    static constexpr int OTHER_FRAGMENTS = 9 * (CHANNELS / 16) * (CHANNELS / 16) * WARP;
    static constexpr int FRAGMENTS = FIRST_FRAGMENTS + 4 * OTHER_FRAGMENTS;
    __device__ static constexpr int fragments(int convolution) {
        return convolution == 0 ? 0 : FIRST_FRAGMENTS + (convolution - 1) * OTHER_FRAGMENTS;
    }
};

// Where a section's results go in global memory; null where nothing is saved. Words are pairs of channels.
struct Saved {
    u32* a;
    u8* winner;
    u32 *h, *b, *j, *y;
};

__device__ __forceinline__ void load_bias(float (&bias)[2][2], const float* __restrict__ parameters, int group) {
    const int t = lane_index() % 4;
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int i = 0; i < 2; i++) bias[half][i] = __ldg(parameters + group * 16 + half * 8 + 2 * t + i);
}

// Pools the rows of a convolution as they come, 3 x 3 with stride 2. A lane has pixels 2 g and 2 g + 1 of each tile;
// the pixel before them is in the lane of g - 1, or in the tile before.
template <int TILES, int POOLED, bool SAVE>
struct Pool {
    int y;       // Row of the convolution whose totals come first.
    int first;   // Row of the result that comes first.
    u32 target;  // Address of row 0 of the result, for this lane.
    u32* saved;
    u8* winner;
    int word;  // Index of the same in `saved`; in `winner` it is twice that.
    float best[TILES][2][2];

    // While windows are compared, the last bits of a number are its place in the window, so that a maximum needs no
    // other comparison. Higher places win ties, so the first pixel has the highest. Of negative numbers the wrong one
    // wins a tie, but a maximum below 0 is rectified and its winner gets no gradient.
    static constexpr u32 ROW_UNIT = 4, PLACE = 15;

    __device__ __forceinline__ static float placed(float number, u32 cleared, u32 place) {
        return from_bits((to_bits(number) & ~cleared) | (SAVE ? place : 0));  // Rounded alike where nothing is saved.
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int group = 0; group < 2; group++)
#pragma unroll
                for (int i = 0; i < 2; i++) best[tile][group][i] = LOWEST;
    }

    __device__ __forceinline__ void operator()(int row, Row<TILES>& totals) {
        const int lane = lane_index(), now = y + row;
        const bool odd_row = now % 2;  // The last row of a window and the first of the next; else the middle row.
#pragma unroll
        for (int group = 0; group < 2; group++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float before = LOWEST;
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    const float even = totals.at[tile][group][i], odd = placed(totals.at[tile][group][2 + i], PLACE, 0);
                    const float moved = __shfl_sync(0xffffffffu, odd, (lane + 28) % WARP);
                    const float left = placed(lane < 4 ? before : moved, 0, 2);
                    before = moved;
                    const float most = fmaxf(fmaxf(left, placed(even, PLACE, 1)), odd);
                    float& top = best[tile][group][i];
                    // A maximum, complete in odd rows, takes the place of totals that are not needed any more.
                    totals.at[tile][group][i] = fmaxf(top, most);
                    top = odd_row ? placed(most, 0, 2 * ROW_UNIT) : fmaxf(top, placed(most, 0, ROW_UNIT));
                }
            }
        const int result = now / 2;
        if (!odd_row || result < first) return;
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int group = 0; group < 2; group++) {
                const float (&numbers)[4] = totals.at[tile][group];
                const u32 pair =
                    pack(fmaxf(placed(numbers[0], PLACE, 0), 0.0f), fmaxf(placed(numbers[1], PLACE, 0), 0.0f));
                shared_store(
                    target + (result * Bordered<POOLED>::ROW + tile * 8 + group * Bordered<POOLED>::PLANE) * CELL, pair
                );
                if (SAVE) {
                    const int at = word + ((group * POOLED + result) * POOLED + tile * 8) * 4;
                    saved[at] = pair;
                    *reinterpret_cast<u16*>(winner + 2 * at) =
                        static_cast<u16>(slot(numbers[0]) | slot(numbers[1]) << 8);
                }
            }
    }

    // Return 3 ky + kx of a maximum from its last bits, 4 (2 - ky) + 2 - kx.
    __device__ __forceinline__ static u32 slot(float number) {
        const u32 place = to_bits(number) & PLACE;
        return 8 - 3 * (place / ROW_UNIT) - place % ROW_UNIT;
    }
};

// Writes the rows of a convolution, added to what is there or not, rectified or not.
template <int SIDE, bool ADD, bool RELU, bool TO_SHARED, bool TO_GLOBAL>
struct Store {
    u32 target;  // Address of the first row, for this lane.
    u32* saved;
    int word;  // Index of the same in `saved`.

    __device__ __forceinline__ void operator()(int row, const Row<1>& totals) {
        using Layout = Bordered<SIDE>;
#pragma unroll
        for (int group = 0; group < 2; group++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const u32 at =
                    target +
                    (row * Layout::ROW + half * Tiles<SIDE>::second(Layout::ROW) + group * Layout::PLANE) * CELL;
                float first = totals.at[0][group][2 * half], second = totals.at[0][group][2 * half + 1];
                if (ADD) {
                    const u32 there = shared_u32(at);
                    first += low(there), second += high(there);
                }
                if (RELU) first = fmaxf(first, 0.0f), second = fmaxf(second, 0.0f);
                const u32 pair = pack(first, second);
                if (TO_SHARED) shared_store(at, pair);
                if (TO_GLOBAL)
                    saved[word + (row * SIDE + half * Tiles<SIDE>::second(SIDE) + group * SIDE * SIDE) * 4] = pair;
            }
    }
};

// Compute a convolution of images in shared memory, from image `first` on; waits until its source is complete.
template <int CHANNELS, int SIDE, int IMAGES, int WARPS, bool ADD, bool RELU, bool TO_SHARED, bool TO_GLOBAL>
__device__ __forceinline__ void residual(
    u32 source, u32 target, const uint4* __restrict__ packed, const float* __restrict__ biases, u32* __restrict__ saved,
    int first
) {
    using Layout = Bordered<SIDE>;
    using Division = Tiles<SIDE>;
    constexpr int HALVES = CHANNELS / 16, GROUPS = WARPS / HALVES, PLANES = CHANNELS / 8;
    constexpr int ALL = IMAGES * Division::ACROSS * Division::ROWS;
    constexpr int ROWS = ALL <= GROUPS ? 1 : ALL / GROUPS < Division::ROWS ? ALL / GROUPS : Division::ROWS;
    constexpr int STRIPS = Division::ROWS / ROWS;
    const int half = warp_index() % HALVES, lane = lane_index(), g = lane / 4, t = lane % 4;

    Filters<CHANNELS> filters;
    filters.load(packed, HALVES, half);
    float bias[2][2];
    load_bias(bias, biases, half);
    __syncthreads();
#pragma unroll 1
    for (int unit = warp_index() / HALVES; unit < ALL / ROWS; unit += GROUPS) {
        const int row = unit % STRIPS * ROWS, tile = unit / STRIPS % Division::ACROSS,
                  image = unit / STRIPS / Division::ACROSS;
        const int cell = image * PLANES * Layout::PLANE + Layout::FIRST + row * Layout::ROW + tile * 16;
        Store<SIDE, ADD, RELU, TO_SHARED, TO_GLOBAL> store;
        store.target = target + (cell + half * 2 * Layout::PLANE + g) * CELL + t * 4;
        store.saved = saved;
        store.word = ((((first + image) * PLANES + half * 2) * SIDE + row) * SIDE + tile * 16 + g) * 4 + t;
        convolve<CHANNELS, 1, Layout::ROW, Layout::PLANE>(
            source + cell * CELL + pixels_first(Division::second(Layout::ROW), Layout::PLANE), filters, bias, ROWS,
            store
        );
    }
}

// Compute a section of images whose input is, or is being copied, in shared memory at `in`; `out` is for a, b and y.
template <int SECTION, int IMAGES, int WARPS, bool SAVE>
__device__ __forceinline__ void section(
    u8* in, u8* out, const uint4* __restrict__ packed, const float* __restrict__ parameters, const Saved& saved,
    int first
) {
    using Its = Shape<SECTION>;
    using Result = Bordered<Its::POOLED>;
    constexpr int CHANNELS = Its::CHANNELS, SIDE = Its::SIDE, POOLED = Its::POOLED, HALVES = CHANNELS / 16;
    constexpr int GROUPS = WARPS / HALVES, ALL = IMAGES * POOLED;
    constexpr int ROWS = ALL / GROUPS < POOLED ? ALL / GROUPS : POOLED, STRIPS = POOLED / ROWS;
    const u32 source = shared_address(in), target = shared_address(out);
    const int half = warp_index() % HALVES, lane = lane_index(), g = lane / 4, t = lane % 4;
    clear_border<POOLED>(out, IMAGES * CHANNELS / 8);

    float bias[2][2];
    load_bias(bias, parameters + Its::bias(0), half);
    constexpr int TILES = SIDE / 16;
    Pool<TILES, POOLED, SAVE> pool;
    auto start = [&](int unit) {
        const int plane = unit / STRIPS * CHANNELS / 8 + half * 2;
        pool.first = unit % STRIPS * ROWS;
        pool.y = pool.first == 0 ? 0 : 2 * pool.first - 1;
        pool.target = target + (plane * Result::PLANE + Result::FIRST + g) * CELL + t * 4;
        pool.saved = saved.a, pool.winner = saved.winner;
        pool.word = ((first * CHANNELS / 8 + plane) * POOLED * POOLED + g) * 4 + t;
        pool.clear();
        return 2 * (pool.first + ROWS) - pool.y;
    };
    if constexpr (SECTION == 1) {
        u32 filters[3][4];
#pragma unroll
        for (int dy = 0; dy < 3; dy++) {
            const uint4 four = __ldg(packed + dy * WARP + lane);
            filters[dy][0] = four.x, filters[dy][1] = four.y, filters[dy][2] = four.z, filters[dy][3] = four.w;
        }
        finish_copies();
        __syncthreads();
        const int rows = start(warp_index());
        u32 address = source + (pool.y * FRAME_ROW + 2 * g) * FRAME_PIXEL + 4 * t;
#pragma unroll 1
        for (int row = 0; row < rows; row++) {
            Row<TILES> totals;
            totals.set(bias);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++)
#pragma unroll
                for (int dy = 0; dy < 3; dy++) {
                    // Four pixels of four colours from x - 1 on are consecutive; those of x + 1 begin 8 bytes later.
                    const u32 at = address + (dy * FRAME_ROW + tile * 16) * FRAME_PIXEL;
                    const u32 left[4] = {shared_u32(at), shared_u32(at + 8), shared_u32(at + 16), shared_u32(at + 24)};
                    multiply(totals.at[tile][0], left, filters[dy][0], filters[dy][1]);
                    multiply(totals.at[tile][1], left, filters[dy][2], filters[dy][3]);
                }
            pool(row, totals);
            address += FRAME_ROW * FRAME_PIXEL;
        }
    } else {
        using Input = Bordered<SIDE>;
        Filters<Its::INPUTS> filters;
        filters.load(packed, HALVES, half);
        finish_copies();
        __syncthreads();
#pragma unroll 1
        for (int unit = warp_index() / HALVES; unit < ALL / ROWS; unit += GROUPS) {
            const int rows = start(unit);
            const int cell = unit / STRIPS * Its::INPUTS / 8 * Input::PLANE + Input::FIRST + pool.y * Input::ROW;
            convolve<Its::INPUTS, TILES, Input::ROW, Input::PLANE>(
                source + cell * CELL + even_first(Input::PLANE), filters, bias, rows, pool
            );
        }
    }
    __syncthreads();  // From here on h and j take the place of the input.
    clear_border<POOLED>(in, IMAGES * CHANNELS / 8);
    auto convolution = [&](int index) { return packed + Its::fragments(index); };
    auto biases = [&](int index) { return parameters + Its::bias(index); };
    residual<CHANNELS, POOLED, IMAGES, WARPS, false, true, true, SAVE>(
        target, source, convolution(1), biases(1), saved.h, first
    );
    residual<CHANNELS, POOLED, IMAGES, WARPS, true, true, true, SAVE>(
        source, target, convolution(2), biases(2), saved.b, first
    );
    residual<CHANNELS, POOLED, IMAGES, WARPS, false, true, true, SAVE>(
        target, source, convolution(3), biases(3), saved.j, first
    );
    residual<CHANNELS, POOLED, IMAGES, WARPS, true, SECTION == 3, !SAVE, SAVE>(
        source, target, convolution(4), biases(4), saved.y, first
    );
}
