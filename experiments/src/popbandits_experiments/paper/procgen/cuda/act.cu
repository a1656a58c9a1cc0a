// Acting: a block computes the whole network for a frame, draws an action and records the step.
//
// On a GPU that is busy with updates every kernel waits until multiprocessors are free, so acting is one kernel.
#include "section.cuh"

static constexpr int WARPS = 16, THREADS = WARPS * WARP;
static constexpr int FEATURES = 2048, HIDDEN = 256, ACTIONS = 15;
static constexpr int PIXELS = FRAME_SIDE * FRAME_SIDE;
// Parameters: the trunk, the hidden layer, policy and value, each with its biases after its weights.
static constexpr int HIDDEN_BIAS =
    Shape<1>::PARAMETERS + Shape<2>::PARAMETERS + Shape<3>::PARAMETERS + HIDDEN * FEATURES;
static constexpr int POLICY = HIDDEN_BIAS + HIDDEN, POLICY_BIAS = POLICY + ACTIONS * HIDDEN;
static constexpr int VALUE = POLICY_BIAS + ACTIONS, VALUE_BIAS = VALUE + HIDDEN;

__device__ __forceinline__ float sum_over_lanes(float number) {
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2) number += __shfl_xor_sync(0xffffffffu, number, apart);
    return number;
}

__device__ __forceinline__ float most_of_lanes(float number) {
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        number = fmaxf(number, __shfl_xor_sync(0xffffffffu, number, apart));
    return number;
}

// Copy a frame (3, 64, 64) of bytes to `stored`, and to shared memory as the first convolution takes it: with a border
// of zeros, and four colours, of which the last is 0.
__device__ __forceinline__ void take_frame(u8* to, const u8* __restrict__ frame, u8* __restrict__ stored) {
    for (int i = threadIdx.x; i < FRAME_BYTES / CELL; i += THREADS) {
        const int row = i * 2 / FRAME_ROW, column = i * 2 % FRAME_ROW;  // A cell is two pixels.
        if (row == 0 || row == FRAME_SIDE + 1 || column == 0 || column >= FRAME_SIDE)
            reinterpret_cast<uint4*>(to)[i] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();  // A cell at the border has a pixel of the frame, too.
    for (int i = threadIdx.x; i < PIXELS / 4; i += THREADS) {
        u32 colours[3];
#pragma unroll
        for (int colour = 0; colour < 3; colour++) {
            colours[colour] = __ldg(reinterpret_cast<const u32*>(frame) + colour * (PIXELS / 4) + i);
            reinterpret_cast<u32*>(stored)[colour * (PIXELS / 4) + i] = colours[colour];
        }
        const int row = i * 4 / FRAME_SIDE, column = i * 4 % FRAME_SIDE;
        uint2* pixels = reinterpret_cast<uint2*>(to) + (row + 1) * FRAME_ROW + column + 1;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float bytes[3];
#pragma unroll
            for (int colour = 0; colour < 3; colour++)
                bytes[colour] = static_cast<float>(colours[colour] >> 8 * j & 0xff);
            pixels[j] = make_uint2(pack(bytes[0], bytes[1]), pack(bytes[2], 0.0f));
        }
    }
}

// Compute relu(W features + bias). A lane keeps its 64 features in registers for all rows of its warp.
__device__ __forceinline__ void hidden_layer(
    const u8* features, const uint4* __restrict__ weights, const float* __restrict__ biases, float* out
) {
    using Layout = Bordered<8>;
    constexpr int CELLS = FEATURES / 8 / WARP, ROWS = HIDDEN / WARPS;
    const int lane = lane_index();
    float seen[CELLS][8];
#pragma unroll
    for (int i = 0; i < CELLS; i++) {
        const int cell = i * WARP + lane, plane = cell / 64, y = cell / 8 % 8, x = cell % 8;
        const int at = plane * Layout::PLANE + Layout::FIRST + y * Layout::ROW + x;
        const uint4 four = reinterpret_cast<const uint4*>(features)[at];
        const u32 pairs[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; j++) seen[i][2 * j] = low(pairs[j]), seen[i][2 * j + 1] = high(pairs[j]);
    }
#pragma unroll 2
    for (int i = 0; i < ROWS; i++) {
        const int row = warp_index() * ROWS + i;
        float sum = 0;
#pragma unroll
        for (int j = 0; j < CELLS; j++) {
            const uint4 four = __ldg(weights + row * (FEATURES / 8) + j * WARP + lane);
            const u32 pairs[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int k = 0; k < 4; k++) sum += low(pairs[k]) * seen[j][2 * k] + high(pairs[k]) * seen[j][2 * k + 1];
        }
        sum = sum_over_lanes(sum);
        // Rounded like the product of an update.
        if (lane == 0) out[row] = fmaxf(low(pack(sum, 0.0f)) + __ldg(biases + row), 0.0f);
    }
}

// Compute an output of the heads, the same in all lanes: a logit, or, last, the value.
__device__ __forceinline__ float head(const float* hidden, const float* __restrict__ parameters, int output) {
    const bool is_value = output == ACTIONS;
    const float* weights = parameters + (is_value ? VALUE : POLICY + output * HIDDEN);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < HIDDEN / WARP; i++)
        sum += hidden[i * WARP + lane_index()] * __ldg(weights + i * WARP + lane_index());
    return sum_over_lanes(sum) + __ldg(parameters + (is_value ? VALUE_BIAS : POLICY_BIAS + output));
}

// `row` points to the row of the records that is written, (rows, stride) and more, from the first of these environments
// on; noise is Gumbel's, so the largest sum of logit and noise is a draw from the policy.
extern "C" __global__ void __launch_bounds__(THREADS, 1) act(
    const u8* __restrict__ frames, const uint4* __restrict__ packed, const uint4* __restrict__ hidden_weights,
    const float* __restrict__ parameters, const long long* __restrict__ row, const float* __restrict__ noise,
    u8* __restrict__ stored, long long* __restrict__ actions, float* __restrict__ log_probabilities,
    float* __restrict__ values, int* __restrict__ current, int stride
) {
    SHARED_MEMORY(memory);
    u8 *first = memory, *second = memory + Shape<1>::IN_BYTES;
    const int image = blockIdx.x;
    const long long record = *row * stride + image;
    const Saved nothing{};
    take_frame(first, frames + image * 3 * PIXELS, stored + record * 3 * PIXELS);
    section<1, 1, WARPS, false>(first, second, packed, parameters, nothing, 0);
    __syncthreads();
    const uint4* fragments = packed + Shape<1>::FRAGMENTS;
    const float* biases = parameters + Shape<1>::PARAMETERS;
    section<2, 1, WARPS, false>(second, first, fragments, biases, nothing, 0);
    __syncthreads();
    fragments += Shape<2>::FRAGMENTS, biases += Shape<2>::PARAMETERS;
    section<3, 1, WARPS, false>(first, second, fragments, biases, nothing, 0);
    __syncthreads();
    float *hidden = reinterpret_cast<float*>(first), *outputs = hidden + HIDDEN;
    hidden_layer(second, hidden_weights, parameters + HIDDEN_BIAS, hidden);
    __syncthreads();
    for (int output = warp_index(); output <= ACTIONS; output += WARPS) {
        const float number = head(hidden, parameters, output);
        if (lane_index() == 0) outputs[output] = number;
    }
    __syncthreads();
    if (warp_index() > 0) return;
    const int lane = lane_index();
    const float logit = lane < ACTIONS ? outputs[lane] : LOWEST;
    const float most = most_of_lanes(logit);
    const float log_sum = logf(sum_over_lanes(lane < ACTIONS ? expf(logit - most) : 0.0f));
    const float drawn = lane < ACTIONS ? logit + __ldg(noise + record * ACTIONS + lane) : LOWEST;
    // The first of the largest; the first of all if none is a number.
    const u32 largest = __ballot_sync(0xffffffffu, drawn == most_of_lanes(drawn) && lane < ACTIONS);
    const int action = largest ? __ffs(largest) - 1 : 0;
    const float log_probability = __shfl_sync(0xffffffffu, logit - most - log_sum, action);
    if (lane > 0) return;
    current[image] = action;
    actions[record] = action;
    log_probabilities[record] = log_probability;
    values[record] = outputs[ACTIONS];
}
