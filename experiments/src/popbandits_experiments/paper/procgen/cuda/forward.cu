// The trunk, forward, for an update: a kernel for each section.
#include "section.cuh"

__device__ __forceinline__ void copy_frame(u8* to, const uint4* __restrict__ frame) {
    for (int i = threadIdx.x; i < FRAME_BYTES / CELL; i += blockDim.x)
        copy_cell(shared_address(to) + i * CELL, frame + i);
}

template <int SECTION, int IMAGES>
__device__ __forceinline__ void forward(
    u8* memory, const uint4* __restrict__ x, const uint4* __restrict__ packed, const float* __restrict__ parameters,
    const Saved& saved
) {
    using Its = Shape<SECTION>;
    u8 *in = memory, *out = memory + IMAGES * Its::IN_BYTES;
    const int image = blockIdx.x * IMAGES;
    if constexpr (SECTION == 1) {
        copy_frame(in, x + image * (FRAME_BYTES / CELL));
    } else {
        constexpr int PLANES = Its::INPUTS / 8;
        copy_planes<Its::SIDE>(shared_address(in), x + image * PLANES * Its::SIDE * Its::SIDE, IMAGES * PLANES);
        clear_border<Its::SIDE>(in, IMAGES * PLANES);
    }
    section<SECTION, IMAGES, 8, true>(in, out, packed, parameters, saved, image);
}

#define FORWARD(SECTION, IMAGES)                                                                                     \
    extern "C" __global__ void __launch_bounds__(256, 2) forward_##SECTION(                                          \
        const uint4* __restrict__ x, const uint4* __restrict__ packed, const float* __restrict__ parameters, u32* a, \
        u8* winner, u32* h, u32* b, u32* j, u32* y                                                                   \
    ) {                                                                                                              \
        SHARED_MEMORY(memory);                                                                                       \
        forward<SECTION, IMAGES>(memory, x, packed, parameters, Saved{a, winner, h, b, j, y});                       \
    }

FORWARD(1, 1)
FORWARD(2, 2)
FORWARD(3, 4)
