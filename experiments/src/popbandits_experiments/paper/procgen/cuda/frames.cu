// Frames into the trunk's input: (3, 64, 64) of an image to the inside of (66, 68, 4), whose border is 0 and stays.
//
// A block takes an image. A thread loads all numbers of its pixels before it stores the first, so that many are on their
// way at a time, and its neighbours' pixels are beside its own.
#include "units.cuh"

static constexpr int THREADS = 512, SIDE = 64, PIXELS = SIDE * SIDE, EACH = PIXELS / THREADS;
static constexpr int ROW = SIDE + 4, IMAGE = (SIDE + 2) * ROW;  // Of the input, in pixels of 8 bytes.
static constexpr int PADDING = 12;                              // Of crops.

// `load(colour, y, x)` returns the bits of a number in bfloat16.
template <class Load>
__device__ __forceinline__ void put(uint2* __restrict__ out, Load load) {
    u32 colours[EACH][3];
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int colour = 0; colour < 3; colour++) {
            const int pixel = i * THREADS + threadIdx.x;
            colours[i][colour] = load(colour, pixel / SIDE, pixel % SIDE);
        }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int pixel = i * THREADS + threadIdx.x;
        out[blockIdx.x * IMAGE + (pixel / SIDE + 1) * ROW + pixel % SIDE + 1] =
            make_uint2(colours[i][0] | colours[i][1] << 16, colours[i][2]);
    }
}

// Put frame rows[i] of bytes to image i: as it is, or padded by 12 pixels that repeat its edges and cropped to 64 x 64
// from (top[i], left[i]) on.
extern "C" __global__ void __launch_bounds__(THREADS, 2) put_bytes(
    const u8* __restrict__ frames, const u64* __restrict__ rows, const u64* __restrict__ top,
    const u64* __restrict__ left, uint2* __restrict__ out
) {
    const u8* frame = frames + __ldg(rows + blockIdx.x) * (3 * PIXELS);
    const int down = top ? static_cast<int>(__ldg(top + blockIdx.x)) - PADDING : 0;
    const int right = left ? static_cast<int>(__ldg(left + blockIdx.x)) - PADDING : 0;
    put(out, [&](int colour, int y, int x) {
        const int row = min(max(y + down, 0), SIDE - 1), column = min(max(x + right, 0), SIDE - 1);
        const u8 byte = __ldg(frame + colour * PIXELS + row * SIDE + column);
        return to_bits(static_cast<float>(byte)) >> 16;  // Exact: a byte has no more than eight digits.
    });
}

// Put images of numbers.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    put_numbers(const u16* __restrict__ images, uint2* __restrict__ out) {
    const u16* image = images + static_cast<u64>(blockIdx.x) * (3 * PIXELS);
    put(out, [&](int colour, int y, int x) {
        return static_cast<u32>(__ldg(image + colour * PIXELS + y * SIDE + x));
    });
}
