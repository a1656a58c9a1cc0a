"""What units.cuh and CUDA promise, held by the CPU's stand-in for them."""

import numpy as np
import pytest
import torch
from torch import Tensor

from experiments.tests.paper.procgen.cuda.on_cpu import KernelError, Library, compile_kernels, needs_compiler, poison

pytestmark = needs_compiler

SOURCE = r"""
#include "units.cuh"

template <bool TRANSPOSED>
__device__ void load_all(const uint4* __restrict__ from, u32* to) {
    SHARED_MEMORY(memory);
    reinterpret_cast<uint4*>(memory)[threadIdx.x] = from[threadIdx.x];
    __syncwarp();
    u32 out[4];
    u32 address = shared_address(memory) + threadIdx.x * CELL;
    if (TRANSPOSED) load_transposed(out, address); else load_matrices(out, address);
    #pragma unroll
    for (int i = 0; i < 4; i++) to[i * WARP + threadIdx.x] = out[i];
}
extern "C" __global__ void load_plain(const uint4* __restrict__ from, u32* to) { load_all<false>(from, to); }
extern "C" __global__ void __launch_bounds__(32, 1) load_turned(const uint4* from, u32* to) {
    load_all<true>(from, to);
}

extern "C" __global__ void __launch_bounds__(64) product(const u32* left, const u16* right, float* total) {
    int warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    left += warp * 128, right += warp * 128, total += warp * 128;
    float sum[4];
    for (int i = 0; i < 4; i++) sum[i] = total[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
    u32 a[4];
    for (int i = 0; i < 4; i++) a[i] = left[(g + i % 2 * 8) * 8 + t + i / 2 * 4];
    u32 b[2];
    for (int i = 0; i < 2; i++) b[i] = right[(2 * t + 8 * i) * 8 + g] | right[(2 * t + 8 * i + 1) * 8 + g] << 16;
    multiply(sum, a, b[0], b[1]);
    for (int i = 0; i < 4; i++) total[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
}

extern "C" __global__ void rounded(const float* from, u32* to) {
    u32 pair = pack(from[2 * threadIdx.x], from[2 * threadIdx.x + 1]);
    to[threadIdx.x] = pair;
}

extern "C" __global__ void shuffles(const float* from, float* to) {
    int i = threadIdx.x;
    to[i] = __shfl_sync(0xffffffffu, from[i], 3);
    to[64 + i] = __shfl_up_sync(0xffffffffu, from[i], 5);
    to[128 + i] = __shfl_down_sync(0xffffffffu, from[i], 5);
    to[192 + i] = __shfl_xor_sync(0xffffffffu, from[i], 6);
    to[256 + i] = __shfl_sync(0xffffffffu, i, 9, 8);
    to[320 + i] = __shfl_up_sync(0xffffffffu, u32(i), 3, 8);
    to[384 + i] = __shfl_down_sync(0xffffffffu, i, 3, 8);
    to[448 + i] = __popc(__ballot_sync(0xffffffffu, i % 5 == 0));
}

extern "C" __global__ void block_sum(const float* from, float* to, int count, float factor) {
    SHARED_MEMORY(memory);
    float* sums = reinterpret_cast<float*>(memory);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = i < count ? __ldg(from + i) : 0;
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x >= 1) return;
    sum = 0;
    for (int warp = 0; warp < min(blockDim.x, 1024) / WARP; warp++) sum += sums[warp];
    to[blockIdx.x] = factor * sum;
}

// Two groups of two warps; each reverses its 64 numbers `times` times, behind a barrier of its own.
extern "C" __global__ void reverse_groups(u32* numbers, int times_0, int times_1, int with_barrier) {
    SHARED_MEMORY(memory);
    int group = threadIdx.x / 64, i = threadIdx.x % 64;
    u32 address = shared_address(memory + 256 * group), mine = numbers[threadIdx.x];
    for (int time = 0; time < (group ? times_1 : times_0); time++) {
        if (with_barrier) barrier(1 + group, 64);
        shared_store(address + 4 * i, mine);
        if (with_barrier) barrier(1 + group, 64);
        mine = shared_u32(address + 4 * (63 - i));
    }
    numbers[threadIdx.x] = mine;
}

extern "C" __global__ void copied(const uint4* from, uint4* to, int wait) {
    SHARED_MEMORY(memory);
    copy_cell(shared_address(memory) + threadIdx.x * CELL, from + threadIdx.x);
    if (wait) finish_copies();
    __syncthreads();
    to[threadIdx.x] = reinterpret_cast<const uint4*>(memory)[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    finish_copies();
}

extern "C" __global__ void dump(u32* to) {
    SHARED_MEMORY(memory);
    to[blockIdx.x * blockDim.x + threadIdx.x] = shared_u32(shared_address(memory) + 4 * threadIdx.x);
    shared_store(4 * threadIdx.x, 0);
}

struct Place { int row; float value; };
extern "C" __global__ void by_value(float* to, Place place) { if (threadIdx.x == 0) to[place.row] = place.value; }

extern "C" __global__ void mistaken(int which) {
    SHARED_MEMORY(memory);
    u32 base = shared_address(memory), out[4];
    int i = threadIdx.x;
    if (which == 0 && i < 40) __syncthreads(); else if (which == 0) barrier(3, 64);
    if (which == 1 && i % 32 != 7) __syncwarp();
    if (which == 2) { if (i % 2) __syncwarp(); else __shfl_sync(0xffffffffu, i, 0); }
    if (which == 3) load_matrices(out, base + 16 * (i + 1));
    if (which == 4) load_transposed(out, base + 8 * i);
    if (which == 5) shared_store(base - 4, 1);
    if (which == 6) shared_u32(base + 2);
    if (which == 7 && i == 0) memory[1024] = 1;
    if (which == 8 && i == 0) reinterpret_cast<u32*>(memory)[-1] = 1;
    if (which == 9) copy_cell(base, memory + 1);
    if (which == 10) copy_cell(base + 16 * i, memory);
    if (which == 11) __shfl_sync(0xffu, i, 0);
    if (which == 12) barrier(16, 64);
    if (which == 13) barrier(1, 48);
    if (which == 14) barrier(1, i < 32 ? 32 * 2 : 32);
    if (which == 15) shared_address(&which);
    if (which == 16) { volatile u8 many[160000]; for (int j = 0; j < 160000; j++) many[j] = 0; }
}
"""


@pytest.fixture(scope="module")
def library() -> Library:
    return compile_kernels(SOURCE)


@pytest.fixture(params=[False, True], ids=["forwards", "backwards"])
def backwards(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_load_gives_each_lane_a_pair_of_each_matrix(library: Library, transposed: bool, backwards: bool) -> None:
    matrices = torch.arange(256, dtype=torch.int16).view(4, 8, 8)
    out = poison(4, 32, 2, dtype=torch.int16)
    library.launch("load_turned" if transposed else "load_plain", 1, 32, 512, matrices, out, backwards=backwards)
    for matrix in range(4):
        for lane in range(32):
            row, column = lane // 4, 2 * (lane % 4)
            pair = [(row, column), (row, column + 1)]
            expected = [matrices[matrix, b, a] if transposed else matrices[matrix, a, b] for a, b in pair]
            assert out[matrix, lane].tolist() == expected


def test_a_product_is_that_of_float64(library: Library, backwards: bool) -> None:
    left, right = randn(2, 16, 16, dtype=torch.bfloat16), randn(2, 16, 8, dtype=torch.bfloat16).flip(0)
    total = randn(2, 16, 8)
    expected = total.double().numpy() + left.double().numpy() @ right.double().numpy()
    library.launch("product", 1, 64, 0, left, right, total, backwards=backwards)
    np.testing.assert_allclose(total.numpy(), expected, rtol=0, atol=1e-5)


def test_pack_rounds_as_pytorch_does(library: Library) -> None:
    ties = (torch.arange(1000, 1032, dtype=torch.int32) << 16 | 0x8000).view(torch.float32)
    special = torch.tensor([float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 3.4e38, -3.4e38, 1.0])
    numbers = torch.cat([ties, special, randn(88)])
    out = poison(128, dtype=torch.bfloat16)
    library.launch("rounded", 1, 64, 0, numbers, out)
    assert torch.equal(out.view(torch.int16), numbers.bfloat16().view(torch.int16))
    library.launch("rounded", 1, 64, 0, torch.full((128,), float("nan")), out)
    assert out.isnan().all()


def test_shuffles_take_from_the_lanes_of_their_warp_and_segment(library: Library, backwards: bool) -> None:
    numbers, out = randn(64), poison(8, 64, dtype=torch.float32)
    library.launch("shuffles", 1, 64, 0, numbers, out, backwards=backwards)
    lane, warp = torch.arange(64) % 32, torch.arange(64) // 32 * 32
    assert torch.equal(out[0], numbers[warp + 3])
    assert torch.equal(out[1], numbers[warp + torch.where(lane >= 5, lane - 5, lane)])
    assert torch.equal(out[2], numbers[warp + torch.where(lane + 5 < 32, lane + 5, lane)])
    assert torch.equal(out[3], numbers[warp + (lane ^ 6)])
    place, segment = torch.arange(64) % 8, torch.arange(64) // 8 * 8
    assert torch.equal(out[4], (segment + 1).float())
    assert torch.equal(out[5], (segment + torch.where(place >= 3, place - 3, place)).float())
    assert torch.equal(out[6], (segment + torch.where(place + 3 < 8, place + 3, place)).float())
    assert out[7].tolist() == 32 * [7] + 32 * [6]


def test_blocks_meet_at_syncthreads_and_threads_may_end_before_others(library: Library, backwards: bool) -> None:
    numbers, out = randn(700), poison(3, dtype=torch.float32)
    library.launch("block_sum", 3, 256, 32, numbers, out, 700, 2.0, backwards=backwards)
    expected = [2 * part.double().sum().item() for part in torch.split(numbers, 256)]
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5)


def test_groups_of_warps_meet_at_barriers_of_their_own(library: Library, backwards: bool) -> None:
    numbers = torch.arange(128, dtype=torch.int32)
    library.launch("reverse_groups", 1, 128, 512, numbers, 3, 8, 1, backwards=backwards)
    assert numbers.tolist() == [*range(63, -1, -1), *range(64, 128)]


def test_a_missing_barrier_shows(library: Library, backwards: bool) -> None:
    numbers = torch.arange(128, dtype=torch.int32)
    library.launch("reverse_groups", 1, 128, 512, numbers, 1, 1, 0, backwards=backwards)
    assert numbers[:64].tolist() != [*range(63, -1, -1)]


def test_copies_arrive_when_they_are_waited_for(library: Library, backwards: bool) -> None:
    cells, out = randn(64, 4), poison(64, 4, dtype=torch.float32)
    library.launch("copied", 1, 64, 1024, cells, out, 1, backwards=backwards)
    assert torch.equal(out, cells.flip(0))
    library.launch("copied", 1, 64, 1024, cells, out, 0, backwards=backwards)
    assert out.isnan().all()


def test_shared_memory_begins_as_nan_in_each_block(library: Library) -> None:
    out = torch.zeros(2, 64)
    library.launch("dump", 2, 64, 256, out)
    assert out.isnan().all()
    assert out.view(torch.bfloat16).isnan().all()


def test_a_struct_is_passed_as_bytes(library: Library) -> None:
    out = torch.zeros(4)
    library.launch("by_value", 1, 32, 0, out, np.array([(2, 1.5)], dtype="i4,f4").tobytes())
    assert out.tolist() == [0, 0, 1.5, 0]


MISTAKES = [
    r"deadlock: .*: 64 of 64; 40 at __syncthreads \(the first is 0\); 24 at barrier 3 \(the first is 40\)",
    r"deadlock: .*: 62 of 64; 62 at __syncwarp \(the first is 0\)",
    r"thread 1: lanes of a warp must meet at the same operation: here __syncwarp, other lanes at a shuffle",
    r"thread 63: load_matrices: shared address 1024 is out of range: the block has 1024 bytes",
    r"thread 1: load_transposed: shared address 8 is not a multiple of 16",
    r"thread 0: shared_store: shared address -4 is out of range",
    r"thread 0: shared_u32: shared address 2 is not a multiple of 4",
    r"block 0: a thread wrote to shared memory at 1024: the block has 1024 bytes",
    r"block 0: a thread wrote to shared memory at -1",
    r"copy_cell: global address 0x[0-9a-f]+ is not a multiple of 16",
    r"a thread ended without finish_copies: 1 copies",
    r"a shuffle: the mask must be 0xffffffff, got 0x000000ff",
    r"barrier: the id must be from 0 to 15, got 16",
    r"barrier 1: threads must be a multiple of 32 up to the block's 64, got 48",
    r"thread 32: barrier 1: threads must agree on how many meet: here 32, others 64",
    r"shared_address: the pointer is not to shared memory",
    r"a thread needs more than \d+ bytes of stack",
]


@pytest.mark.parametrize(("which", "message"), [*enumerate(MISTAKES)])
def test_a_mistake_is_reported_and_the_next_launch_is_sound(library: Library, which: int, message: str) -> None:
    with pytest.raises(KernelError, match=f"mistaken: .*{message}"):
        library.launch("mistaken", 2, 64, 1024, which)
    library.launch("mistaken", 2, 64, 1024, len(MISTAKES))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing", 1, 32, 0), "There is no kernel 'nothing'; there are load_plain, "),
        (("dump", 0, 32, 0, None), "grid must be at least 1, got 0"),
        (("dump", 1, 48, 0, None), "threads must be a multiple of 32 from 32 to 1024, got 48"),
        (("dump", 1, 32, 1 << 20, None), "shared_bytes must be from 0 to 232448, got 1048576"),
        (("dump", 1, 32, 0), "dump: the kernel takes 1 arguments, got 0"),
        (("dump", 1, 32, 0, 3), "dump: argument 1 of the kernel must be a tensor or None"),
        (("mistaken", 1, 32, 0, 1 << 40), "argument 1 of the kernel must be an int within its range"),
        (("block_sum", 1, 32, 0, None, None, 1, None), "argument 4 of the kernel must be a float"),
        (("by_value", 1, 32, 0, None, b"1234"), "argument 2 of the kernel must be the bytes of a struct of its size"),
        (("dump", 1, 32, 0, torch.zeros(2, device="meta")), "A tensor must be on the CPU, got meta"),
        (("dump", 1, 32, 0, "text"), "An argument must be a tensor, None, .* got 'text'"),
    ],
)
def test_a_wrong_launch_is_refused(library: Library, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(KernelError, match=message):
        library.launch(*arguments)  # type: ignore[arg-type]


def test_source_that_does_not_compile_is_reported() -> None:
    with pytest.raises(KernelError, match=r"'unknown' was not declared|undeclared identifier 'unknown'"):
        compile_kernels('extern "C" __global__ void kernel() { unknown(); }')
