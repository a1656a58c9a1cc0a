// Compiles CUDA kernels for the CPU, for tests: what the language has, then what units.cuh adds.
// Threads are those of fibers.h.
#pragma once

#include <math.h>

#include "fibers.h"

namespace on_cpu {

inline float as_float(u32 bits) {
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

inline u32 as_bits(float value) {
    u32 out;
    memcpy(&out, &value, 4);
    return out;
}

}  // namespace on_cpu

// The language

#define __device__
#define __host__
#define __global__ __attribute__((visibility("default")))  // on_cpu.py finds kernels by it.
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)

#define ON_CPU_VECTORS(T, NAME, ALIGNMENT)                                             \
    struct alignas(2 * sizeof(T)) NAME##2 {                                            \
        T x, y;                                                                    \
    };                                                                                 \
    struct alignas(ALIGNMENT) NAME##4 {                                                \
        T x, y, z, w;                                                              \
    };                                                                                 \
    inline NAME##2 make_##NAME##2(T x, T y) { return NAME##2{x, y}; }                  \
    inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return NAME##4{x, y, z, w}; }
ON_CPU_VECTORS(u32, uint, 16)
ON_CPU_VECTORS(int, int, 16)
ON_CPU_VECTORS(float, float, 16)
ON_CPU_VECTORS(u16, ushort, 8)
ON_CPU_VECTORS(u8, uchar, 4)
#undef ON_CPU_VECTORS

#define ON_CPU_ORDER(T)                                \
    inline T min(T a, T b) { return b < a ? b : a; }   \
    inline T max(T a, T b) { return a < b ? b : a; }
ON_CPU_ORDER(int)
ON_CPU_ORDER(u32)
ON_CPU_ORDER(long long)
ON_CPU_ORDER(u64)
#undef ON_CPU_ORDER
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline u32 min(int a, u32 b) { return min(static_cast<u32>(a), b); }
inline u32 min(u32 a, int b) { return min(a, static_cast<u32>(b)); }
inline u32 max(int a, u32 b) { return max(static_cast<u32>(a), b); }
inline u32 max(u32 a, int b) { return max(a, static_cast<u32>(b)); }

template <class T>
inline T __ldg(const T* pointer) {
    return *pointer;
}
inline float __uint_as_float(u32 bits) { return on_cpu::as_float(bits); }
inline float __int_as_float(int bits) { return on_cpu::as_float(bits); }
inline u32 __float_as_uint(float value) { return on_cpu::as_bits(value); }
inline int __float_as_int(float value) { return on_cpu::as_bits(value); }
#ifdef __GLIBC__  // Whose own names for these are not declared.
inline float on_cpu_expf(float value) { return expf(value); }
inline float on_cpu_logf(float value) { return logf(value); }
#define __expf on_cpu_expf
#define __logf on_cpu_logf
#endif
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float value) { return 1.0f / sqrtf(value); }
inline int __popc(u32 bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(bits) : 32; }
inline u32 __umulhi(u32 a, u32 b) { return static_cast<u64>(a) * b >> 32; }
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T, class U>
inline T atomicAdd(T* to, U value) {
    T before = *to;
    *to = before + value;
    return before;
}

inline void __syncthreads() { on_cpu::meet(0, on_cpu::ALL, "__syncthreads"); }
inline void __syncwarp(u32 mask = 0xffffffffu) {
    on_cpu::together(on_cpu::SYNCWARP, mask, [](on_cpu::Slot*) {});
}
inline u32 __ballot_sync(u32 mask, int value) { return on_cpu::vote(mask, value); }
inline int __any_sync(u32 mask, int value) { return on_cpu::vote(mask, value) != 0; }
inline int __all_sync(u32 mask, int value) { return on_cpu::vote(mask, value) == 0xffffffffu; }

// Shuffles stay within segments of `width` lanes; a lane whose source is outside of its segment keeps its value.
template <class T>
inline T __shfl_sync(u32 mask, T value, int from, int width = 32) {
    u32 lane = threadIdx.x % 32, segment = lane & ~(width - 1);
    return on_cpu::shuffle(mask, value, segment | (from & (width - 1)));
}
template <class T>
inline T __shfl_up_sync(u32 mask, T value, u32 by, int width = 32) {
    u32 lane = threadIdx.x % 32;
    return on_cpu::shuffle(mask, value, (lane & (width - 1)) >= by ? lane - by : lane);
}
template <class T>
inline T __shfl_down_sync(u32 mask, T value, u32 by, int width = 32) {
    u32 lane = threadIdx.x % 32;
    return on_cpu::shuffle(mask, value, (lane & (width - 1)) + by < u32(width) ? lane + by : lane);
}
template <class T>
inline T __shfl_xor_sync(u32 mask, T value, int by, int width = 32) {
    u32 lane = threadIdx.x % 32, from = lane ^ by;
    return on_cpu::shuffle(mask, value, from <= (lane | (width - 1)) ? from : lane);
}

// The words of units.cuh

namespace on_cpu {

template <bool TRANSPOSED>
inline void load(u32 (&out)[4], u32 address) {
    const char* operation = TRANSPOSED ? LOAD_TRANSPOSED : LOAD;
    at(address, 16, operation);
    Slot& slot = my_slot();
    slot.in[0] = address;
    together(operation, 0xffffffffu, [](Slot* slots) {
        for (int matrix = 0; matrix < 4; matrix++) {
            u16 elements[8][8];
            for (int row = 0; row < 8; row++) memcpy(elements[row], shared + slots[8 * matrix + row].in[0], 16);
            for (int i = 0; i < LANES; i++) {
                int a = i / 4, b = i % 4 * 2;
                u32 first = TRANSPOSED ? elements[b][a] : elements[a][b];
                u32 second = TRANSPOSED ? elements[b + 1][a] : elements[a][b + 1];
                slots[i].out[matrix] = first | second << 16;
            }
        }
    });
    memcpy(out, slot.out, sizeof out);
}

inline void unpack(float* to, int stride, u32 pair) {
    to[0] = as_float(pair << 16);
    to[stride] = as_float(pair & 0xffff0000u);
}

// Words of a slot: four of the total, four of the left factor, two of the right.
__attribute__((noinline)) inline void multiply_slots(Slot* slots) {
    float left[16][16], right[16][8];
    for (int i = 0; i < LANES; i++) {
        const u32* in = slots[i].in;
        int g = i / 4, t = i % 4;
        unpack(&left[g][2 * t], 1, in[4]);
        unpack(&left[g + 8][2 * t], 1, in[5]);
        unpack(&left[g][2 * t + 8], 1, in[6]);
        unpack(&left[g + 8][2 * t + 8], 1, in[7]);
        unpack(&right[2 * t][g], 8, in[8]);
        unpack(&right[2 * t + 8][g], 8, in[9]);
    }
    typedef float Four __attribute__((vector_size(16)));
    for (int row = 0; row < 16; row++) {
        Four sums[2] = {};
        for (int k = 0; k < 16; k++) {
            Four halves[2];
            memcpy(halves, right[k], sizeof halves);
            sums[0] += left[row][k] * halves[0];
            sums[1] += left[row][k] * halves[1];
        }
        for (int column = 0; column < 8; column++) {
            Slot& slot = slots[row % 8 * 4 + column / 2];
            int which = row / 8 * 2 + column % 2;
            slot.out[which] = as_bits(as_float(slot.in[which]) + sums[column / 4][column % 4]);
        }
    }
}

inline u32 round_to_bfloat16(float value) {
    if (value != value) return 0x7fff;
    u32 bits = as_bits(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

}  // namespace on_cpu

#define SHARED_MEMORY(name) u8* const name = on_cpu::shared

inline u32 shared_address(const void* pointer) {
    long long offset = static_cast<const u8*>(pointer) - on_cpu::shared;
    if (offset < -(1 << 20) || offset > 1 << 20) on_cpu::fail("shared_address: the pointer is not to shared memory");
    return static_cast<u32>(offset);
}

inline void load_matrices(u32 (&out)[4], u32 address) { on_cpu::load<false>(out, address); }
inline void load_transposed(u32 (&out)[4], u32 address) { on_cpu::load<true>(out, address); }

inline void multiply(float (&total)[4], const u32 (&left)[4], u32 right_0, u32 right_1) {
    on_cpu::Slot& slot = on_cpu::my_slot();
    memcpy(slot.in, total, 16);
    memcpy(slot.in + 4, left, 16);
    slot.in[8] = right_0;
    slot.in[9] = right_1;
    on_cpu::together(on_cpu::MULTIPLY, 0xffffffffu, on_cpu::multiply_slots);
    memcpy(total, slot.out, 16);
}

inline void barrier(int id, int threads) {
    static const char* const names[on_cpu::BARRIERS] = {
        "barrier 0", "barrier 1", "barrier 2",  "barrier 3",  "barrier 4",  "barrier 5",  "barrier 6",  "barrier 7",
        "barrier 8", "barrier 9", "barrier 10", "barrier 11", "barrier 12", "barrier 13", "barrier 14", "barrier 15"};
    if (id < 0 || id >= on_cpu::BARRIERS) on_cpu::fail("barrier: the id must be from 0 to 15, got %d", id);
    if (threads < 1 || threads % 32 || threads > int(blockDim.x))
        on_cpu::fail("barrier %d: threads must be a multiple of 32 up to the block's %u, got %d", id, blockDim.x,
                     threads);
    on_cpu::meet(id, threads, names[id]);
}

inline void copy_cell(u32 to, const void* from) {
    u8* target = on_cpu::at(to, 16, "copy_cell");
    if (!from || reinterpret_cast<size_t>(from) % 16)
        on_cpu::fail("copy_cell: global address %p is not a multiple of 16", from);
    memset(target, on_cpu::POISON, 16);
    on_cpu::current->copies.push_back({to, from});
}

inline void finish_copies() {
    for (const on_cpu::Copy& copy : on_cpu::current->copies) memcpy(on_cpu::shared + copy.to, copy.from, 16);
    on_cpu::current->copies.clear();
}

inline u32 pack(float low, float high) {
    return on_cpu::round_to_bfloat16(low) | on_cpu::round_to_bfloat16(high) << 16;
}

inline u32 shared_u32(u32 address) {
    u32 out;
    memcpy(&out, on_cpu::at(address, 4, "shared_u32"), 4);
    return out;
}

inline void shared_store(u32 address, u32 value) { memcpy(on_cpu::at(address, 4, "shared_store"), &value, 4); }

inline float from_bits(u32 bits) { return on_cpu::as_float(bits); }
inline u32 to_bits(float number) { return on_cpu::as_bits(number); }

inline u32 add_pairs(u32 left, u32 right) {
    using on_cpu::as_float;
    return pack(as_float(left << 16) + as_float(right << 16), as_float(left & 0xffff0000u) + as_float(right & 0xffff0000u));
}

inline u32 select_bytes(u32 bytes, u32 selector) {
    u32 out = 0;
    for (int i = 0; i < 4; i++) {
        u32 digit = selector >> 4 * i & 0xf, byte = bytes >> 8 * (digit & 3) & 0xff;
        if (digit & 8) byte = byte & 0x80 ? 0xff : 0;
        if (!(digit & 4)) out |= byte << 8 * i;
    }
    return out;
}

// For on_cpu.py: the entry by which a kernel is launched.
#define ON_CPU_KERNEL(kernel)                                                                                       \
    extern "C" __attribute__((visibility("default"))) const char* on_cpu_##kernel(                                  \
        const on_cpu::Argument* arguments, int count, int grid, int threads, int bytes, int backwards) {            \
        return on_cpu::launch(&kernel, arguments, count, grid, threads, bytes, backwards);                          \
    }
