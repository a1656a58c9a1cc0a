// Words for what a warp does on a GPU of compute capability 8.0 or above: matrix products, loads for them, copies.
//
// Activations are bfloat16. In global memory they are (image, C / 8, H, W, 8): a *cell* is eight channels of a pixel,
// 16 bytes, and a *plane* is one group of eight channels. This is the layout of a product's fragments: a tile of 16
// pixels by 8 channels is stored by a warp as consecutive bytes, and any shift of a tile is a shift of its address.
//
// In shared memory a plane has a border of zeros, so that neighbours need no bounds check: H + 2 rows of W + 1 cells
// and one more. The first cell of a row is the zero to its left and, at the same time, the zero to the right of the row
// before.
//
// Nothing is included, so that a GPU host needs no CUDA headers.
#pragma once

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef unsigned long long u64;

static constexpr int WARP = 32;
static constexpr int CELL = 16;  // Bytes of a cell.

#ifndef ON_CPU  // Tests compile the kernels for the CPU, with these functions replaced (tests/.../cuda/on_cpu.h).

#define SHARED_MEMORY(name) extern __shared__ __align__(128) u8 name[]

// Return the address of shared memory that the instructions below take.
__device__ __forceinline__ u32 shared_address(const void* pointer) {
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// Load four 8 x 8 matrices; lane i gives the address of row i % 8 of matrix i / 8, 16 bytes. Lane i receives of each
// matrix the elements (i / 4, 2 (i % 4)) and (i / 4, 2 (i % 4) + 1).
__device__ __forceinline__ void load_matrices(u32 (&out)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
}

// The same, each matrix transposed.
__device__ __forceinline__ void load_transposed(u32 (&out)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
}

// Compute total += left * right, 16 x 16 by 16 x 8. With g = lane / 4 and t = lane % 4, pairs of columns:
// total is (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1); left is the pairs (g, 2t), (g + 8, 2t), (g, 2t + 8),
// (g + 8, 2t + 8); right is the pairs of rows (2t, g) and (2t + 8, g).
__device__ __forceinline__ void multiply(float (&total)[4], const u32 (&left)[4], u32 right_0, u32 right_1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(total[0]), "+f"(total[1]), "+f"(total[2]), "+f"(total[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_0), "r"(right_1)
    );
}

// Begin to copy 16 bytes from global to shared memory.
__device__ __forceinline__ void copy_cell(u32 to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Wait for all copies that this thread began; others see them after a barrier.
__device__ __forceinline__ void finish_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Wait until `threads` threads of the block, whole warps, are at barrier `id`, 1 to 15 (0 is __syncthreads).
__device__ __forceinline__ void barrier(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Round two numbers to bfloat16, the first in the lower half.
__device__ __forceinline__ u32 pack(float low, float high) {
    u32 out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}

__device__ __forceinline__ u32 shared_u32(u32 address) {
    u32 out;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(out) : "r"(address) : "memory");
    return out;
}

__device__ __forceinline__ void shared_store(u32 address, u32 value) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// Add two pairs of bfloat16, rounding each sum.
__device__ __forceinline__ u32 add_pairs(u32 left, u32 right) {
    u32 out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(left), "r"(0x3f803f80u), "r"(right));
    return out;
}

// Select four bytes by the four lowest hexadecimal digits of the selector, the lowest byte first: 0 to 3 are bytes, 8
// to b are their signs, repeated eight times.
__device__ __forceinline__ u32 select_bytes(u32 bytes, u32 selector) {
    u32 out;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(out) : "r"(bytes), "r"(selector));
    return out;
}

__device__ __forceinline__ float from_bits(u32 bits) { return __uint_as_float(bits); }
__device__ __forceinline__ u32 to_bits(float number) { return __float_as_uint(number); }

#endif

__device__ __forceinline__ float low(u32 pair) { return from_bits(pair << 16); }
__device__ __forceinline__ float high(u32 pair) { return from_bits(pair & 0xffff0000u); }

// Sizes of an image with its border in shared memory, in cells and bytes.
template <int SIDE>
struct Bordered {
    static constexpr int ROW = SIDE + 1;
    static constexpr int PLANE = (SIDE + 2) * ROW + 1;
    static constexpr int FIRST = ROW + 1;  // The first pixel.
    __device__ static constexpr int bytes(int channels) { return channels / 8 * PLANE * CELL; }
};
