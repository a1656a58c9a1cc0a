// Runs the threads of CUDA kernels on the CPU, for tests.
//
// A thread is a fiber; blocks run one after another. A fiber runs until it must wait for others: for the 32 lanes of
// its warp, at a shuffle or a matrix product, or at a barrier. The last to arrive computes the result for all and makes
// the others ready. So a result never depends on time, and a missing barrier mostly shows as a wrong result in one of the
// two orders, forwards and backwards, in which threads can run.
//
// Mistakes end the launch with a message: threads that wait for ever, lanes of a warp at different operations, shared
// addresses out of range or not aligned, writes beside the shared memory, copies that are not waited for. Shared memory
// and targets of unfinished copies are filled with bytes 0xff: NaN as bfloat16 and as float32.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef unsigned long long u64;

// Threads

struct OnlyX {
    u32 x;
};
inline OnlyX threadIdx, blockIdx, blockDim, gridDim;

namespace on_cpu {

constexpr int LANES = 32, MOST_THREADS = 1024, BARRIERS = 16;
constexpr size_t STACK = 128 * 1024 + 1088;  // No power of two, or all stacks would compete for the same cache lines.
constexpr u64 STACK_END = 0x5ca1ab1e0ddba115;
constexpr int FENCE = 16 * 1024;  // Bytes on both sides of shared memory that nobody may change.
constexpr u8 POISON = 0xff;

struct Copy {
    u32 to;
    const void* from;
};

struct Fiber {
    jmp_buf state;
    bool started = false;
    u32 index = 0;
    u8* stack = nullptr;
    const char* waits_for = nullptr;  // Null while it is ready or has ended.
    std::vector<Copy> copies;
};

// What a lane brings to an operation of its warp, and what it takes away.
struct Slot {
    u32 in[10], out[4];
};

struct Warp {
    const char* operation;
    int arrived;
    Slot slots[LANES];
};

struct Barrier {
    int expected, arrived;
    u16 waiting[MOST_THREADS];
};

inline Fiber host, fibers[MOST_THREADS];
inline Fiber* current = &host;
inline Warp warps[MOST_THREADS / LANES];
inline Barrier barriers[BARRIERS];
inline u16 ready[MOST_THREADS];  // A ring.
inline u32 ready_first, ready_count;
inline int live;  // Threads that have not ended.
inline bool backwards;
inline u8* shared;
inline u32 shared_bytes;
inline void (*body)(void*);
inline void* body_arguments;
inline char message[1024];

inline void fiber_main();

// Leave the current fiber for another. The compiler may assume nothing about memory across it.
__attribute__((noipa, noinline)) inline void switch_to(Fiber* next) {
    Fiber* left = current;
    current = next;
    threadIdx.x = next->index;
    if (_setjmp(left->state) == 0) {
        if (next->started) _longjmp(next->state, 1);
        next->started = true;
        static ucontext_t context;
        getcontext(&context);
        context.uc_stack.ss_sp = next->stack;
        context.uc_stack.ss_size = STACK;
        makecontext(&context, fiber_main, 0);
        setcontext(&context);
    }
    asm volatile("" ::: "memory");
}

// End the launch with a message, from a fiber. Fibers that have not ended are given up; the next launch makes new ones.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void fail(const char* format, ...) {
    int used = snprintf(message, sizeof message, "block %u, thread %u: ", blockIdx.x, threadIdx.x);
    va_list values;
    va_start(values, format);
    vsnprintf(message + used, sizeof message - used, format, values);
    va_end(values);
    switch_to(&host);
    abort();
}

inline void fail_deadlock() {
    char text[900];
    int used = 0;
    std::vector<const char*> seen;
    for (u32 i = 0; i < blockDim.x; i++) {
        const char* reason = fibers[i].waits_for;
        bool known = !reason;
        for (const char* other : seen) known |= other == reason;
        if (known) continue;
        seen.push_back(reason);
        int count = 0;
        for (u32 j = i; j < blockDim.x; j++) count += fibers[j].waits_for == reason;
        if (used < 700)
            used += snprintf(text + used, sizeof text - used, "; %d at %s (the first is %u)", count, reason, i);
    }
    fail("deadlock: every thread that has not ended waits: %d of %u%s", live, blockDim.x, text);
}

inline void make_ready(u32 index) {
    fibers[index].waits_for = nullptr;
    ready[(ready_first + ready_count++) % MOST_THREADS] = index;
}

inline void run_next() {
    if (ready_count == 0) fail_deadlock();
    u32 next = ready[ready_first];
    ready_first = (ready_first + 1) % MOST_THREADS;
    ready_count--;
    switch_to(&fibers[next]);
}

inline void wait(const char* reason) {
    current->waits_for = reason;
    run_next();
}

// Return the i-th of `count` threads in the order in which they run.
inline u32 in_order(u32 i, u32 count) { return backwards ? count - 1 - i : i; }

// Warps

inline const char SHUFFLE[] = "a shuffle", VOTE[] = "a vote", SYNCWARP[] = "__syncwarp", LOAD[] = "load_matrices",
                  LOAD_TRANSPOSED[] = "load_transposed", MULTIPLY[] = "multiply";

inline Slot& my_slot() { return warps[threadIdx.x / LANES].slots[threadIdx.x % LANES]; }

// Wait until all lanes of the warp are here; the last calls `finish` with their slots.
template <class Finish>
inline void together(const char* operation, u32 mask, Finish finish) {
    if (mask != 0xffffffffu) fail("%s: the mask must be 0xffffffff, got 0x%08x", operation, mask);
    Warp& warp = warps[threadIdx.x / LANES];
    if (warp.arrived == 0)
        warp.operation = operation;
    else if (warp.operation != operation)
        fail("lanes of a warp must meet at the same operation: here %s, other lanes at %s", operation, warp.operation);
    if (++warp.arrived < LANES) return wait(operation);
    warp.arrived = 0;
    finish(warp.slots);
    u32 first = threadIdx.x / LANES * LANES, me = threadIdx.x;
    for (u32 i = 0; i < LANES; i++) {
        u32 other = first + in_order(i, LANES);
        if (other != me) make_ready(other);
    }
}

template <class T>
inline T shuffle(u32 mask, T value, u32 from_lane) {
    static_assert(sizeof(T) == 4, "shuffles are of four bytes");
    Slot& slot = my_slot();
    memcpy(&slot.in[0], &value, 4);
    slot.in[1] = from_lane;
    together(SHUFFLE, mask, [](Slot* slots) {
        for (int i = 0; i < LANES; i++) slots[i].out[0] = slots[slots[i].in[1]].in[0];
    });
    memcpy(&value, &slot.out[0], 4);
    return value;
}

inline u32 vote(u32 mask, bool value) {
    Slot& slot = my_slot();
    slot.in[0] = value;
    together(VOTE, mask, [](Slot* slots) {
        u32 all = 0;
        for (int i = 0; i < LANES; i++) all |= slots[i].in[0] << i;
        for (int i = 0; i < LANES; i++) slots[i].out[0] = all;
    });
    return slot.out[0];
}

// Barriers

inline void release(Barrier& meeting) {
    u32 count = meeting.arrived, me = threadIdx.x;
    meeting.arrived = 0;
    if (backwards) {
        for (u32 i = count; i-- > 0;)
            if (meeting.waiting[i] != me) make_ready(meeting.waiting[i]);
    } else {
        for (u32 i = 0; i < count; i++)
            if (meeting.waiting[i] != me) make_ready(meeting.waiting[i]);
    }
}

constexpr int ALL = 0;  // Expected at __syncthreads: all threads that have not ended.

inline void meet(int id, int expected, const char* reason) {
    Barrier& meeting = barriers[id];
    if (meeting.arrived == 0)
        meeting.expected = expected;
    else if (meeting.expected != expected)
        fail("barrier %d: threads must agree on how many meet: here %d, others %d (0: __syncthreads)", id, expected,
             meeting.expected);
    meeting.waiting[meeting.arrived++] = threadIdx.x;
    if (meeting.arrived == (expected == ALL ? live : expected))
        release(meeting);
    else
        wait(reason);
}

// Shared memory

inline u8* at(u32 address, u32 bytes, const char* operation) {
    if (address % bytes) fail("%s: shared address %u is not a multiple of %u", operation, address, bytes);
    if (address > shared_bytes || shared_bytes - address < bytes)
        fail("%s: shared address %d is out of range: the block has %u bytes", operation, static_cast<int>(address),
             shared_bytes);
    return shared + address;
}

inline void check_fences() {
    for (int i = 0; i < FENCE && !message[0]; i++) {
        bool before = shared[-1 - i] != POISON, after = shared[shared_bytes + i] != POISON;
        if (before || after)
            snprintf(message, sizeof message, "block %u: a thread wrote to shared memory at %d: the block has %u bytes",
                     blockIdx.x, before ? -1 - i : static_cast<int>(shared_bytes) + i, shared_bytes);
    }
}

// A launch

inline void end_thread() {
    if (!current->copies.empty()) fail("a thread ended without finish_copies: %zu copies", current->copies.size());
    u64 end;
    memcpy(&end, current->stack, sizeof end);
    if (end != STACK_END) fail("a thread needs more than %zu bytes of stack", STACK);
    live--;
    Barrier& everyone = barriers[0];
    if (everyone.arrived > 0 && everyone.expected == ALL && everyone.arrived == live) release(everyone);
    if (live == 0)
        switch_to(&host);
    else
        run_next();
}

inline void fiber_main() {
    for (;;) {  // Once per block.
        body(body_arguments);
        end_thread();
    }
}

inline void prepare_block() {
    memset(shared - FENCE, POISON, shared_bytes + 2 * FENCE);
    for (Warp& warp : warps) warp.arrived = 0;
    for (Barrier& meeting : barriers) meeting.arrived = 0;
    ready_first = ready_count = 0;
    live = blockDim.x;
    static u8* const stacks = static_cast<u8*>(aligned_alloc(64, (MOST_THREADS + 1) * STACK)) + STACK;
    for (u32 i = 0; i < blockDim.x; i++) {
        u32 index = in_order(i, blockDim.x);
        Fiber& fiber = fibers[index];
        fiber.stack = stacks + index * STACK;
        memcpy(fiber.stack, &STACK_END, sizeof STACK_END);
        fiber.index = index;
        fiber.copies.clear();
        make_ready(index);
    }
}

inline void run_blocks(int grid, int threads, int bytes) {
    gridDim.x = grid;
    blockDim.x = threads;
    shared_bytes = bytes;
    u8* memory = static_cast<u8*>(aligned_alloc(1024, (bytes + 2 * FENCE + 1023) / 1024 * 1024));
    shared = memory + FENCE;
    message[0] = 0;
    host.started = true;
    for (int block = 0; block < grid && !message[0]; block++) {
        blockIdx.x = block;
        prepare_block();
        run_next();
        if (!message[0]) check_fences();
    }
    if (message[0])
        for (Fiber& fiber : fibers) fiber.started = false;
    free(memory);
}

// An argument of a kernel as the caller gives it: 'p'ointer, 'i'nteger, 'f'loat or the bytes of a 's'truct.
struct Argument {
    long long kind;
    union {
        void* pointer;
        long long integer;
        double number;
    };
    long long bytes;
};

template <class T>
inline const char* convert(const Argument& argument, T& out) {
    if constexpr (std::is_pointer_v<T>) {
        if (argument.kind != 'p') return "a tensor or None";
        out = static_cast<T>(argument.pointer);
    } else if constexpr (std::is_integral_v<T>) {
        out = static_cast<T>(argument.integer);
        if (argument.kind != 'i' || static_cast<long long>(out) != argument.integer) return "an int within its range";
    } else if constexpr (std::is_floating_point_v<T>) {
        if (argument.kind != 'f' && argument.kind != 'i') return "a float";
        out = static_cast<T>(argument.kind == 'f' ? argument.number : static_cast<double>(argument.integer));
    } else {
        if (argument.kind != 's' || argument.bytes != sizeof(T)) return "the bytes of a struct of its size";
        memcpy(static_cast<void*>(&out), argument.pointer, sizeof(T));
    }
    return nullptr;
}

template <class... A, size_t... I>
const char* launch_with(void (*kernel)(A...), std::index_sequence<I...>, const Argument* arguments, int count, int grid,
                        int threads, int bytes) {
    typedef std::tuple<void (*)(A...), std::remove_const_t<A>...> Call;
    static Call call;
    if (count != sizeof...(A)) {
        snprintf(message, sizeof message, "the kernel takes %zu arguments, got %d", sizeof...(A), count);
        return message;
    }
    std::get<0>(call) = kernel;
    int place = 0;
    const char* expected = nullptr;
    (void)((place++, expected = convert(arguments[I], std::get<I + 1>(call))) || ...);
    if (expected) {
        snprintf(message, sizeof message, "argument %d of the kernel must be %s", place, expected);
        return message;
    }
    body_arguments = &call;
    body = [](void* given) {
        Call& held = *static_cast<Call*>(given);
        std::get<0>(held)(std::get<I + 1>(held)...);
    };
    run_blocks(grid, threads, bytes);
    return message[0] ? message : nullptr;
}

// Run a kernel; return null or what went wrong.
template <class... A>
const char* launch(void (*kernel)(A...), const Argument* arguments, int count, int grid, int threads, int bytes,
                   int backwards_too) {
    backwards = backwards_too;
    return launch_with(kernel, std::index_sequence_for<A...>(), arguments, count, grid, threads, bytes);
}

}  // namespace on_cpu

