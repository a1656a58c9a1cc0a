# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
"""Triton kernel for what follows the hidden layer's product in an update: the gradient of the loss.

| symbol | meaning | shape |
|---|---|---|
| hidden | the hidden layer's product, without its bias | (rows, HIDDEN) |
| x | relu(hidden + bias), a few units at a time | (BLOCK, UNITS) |
| tail | parameters after the hidden weights: its bias, policy, policy's bias, value, value's bias | (TAIL,) |
| outputs | logits, then the value in the last column | (BLOCK, ACTIONS + 1) |

ACTIONS + 1, BLOCK and UNITS must be powers of two from 16 on, as products need, and UNITS divide HIDDEN. All units at
once would not fit into registers.

Comparisons are written so that NaN passes, as in PyTorch: an agent whose weights diverged must be found out.
"""

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


@triton.jit
def _weight_index(start, HIDDEN: tl.constexpr, ACTIONS: tl.constexpr, UNITS: tl.constexpr):
    """Index in the tail of some units' weights in both heads, (ACTIONS + 1, UNITS); the policy's bias lies between."""
    output = tl.arange(0, ACTIONS + 1)
    row = HIDDEN + output * HIDDEN + tl.where(output == ACTIONS, ACTIONS, 0)
    return row[:, None] + start + tl.arange(0, UNITS)[None, :]


@triton.jit
def _bias_index(HIDDEN: tl.constexpr, ACTIONS: tl.constexpr):
    """Index in the tail of the biases of both heads, (ACTIONS + 1,)."""
    output = tl.arange(0, ACTIONS + 1)
    return HIDDEN + ACTIONS * HIDDEN + output + tl.where(output == ACTIONS, HIDDEN, 0)


@triton.jit
def _rectify(hidden, tail, row, inside, start, HIDDEN: tl.constexpr, UNITS: tl.constexpr):
    """Compute x for some units of some rows, (BLOCK, UNITS)."""
    unit = start + tl.arange(0, UNITS)
    product = tl.load(hidden + row[:, None] * HIDDEN + unit[None, :], mask=inside[:, None], other=0.0)
    x = product.to(tl.float32) + tl.load(tail + unit)[None, :]
    return tl.where(x <= 0.0, 0.0, x)


@triton.jit
def _evaluate(
    hidden,
    tail,
    row,
    inside,
    HIDDEN: tl.constexpr,
    ACTIONS: tl.constexpr,
    BLOCK: tl.constexpr,
    UNITS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Compute the outputs of some rows."""
    outputs = tl.zeros((BLOCK, ACTIONS + 1), tl.float32)
    for start in range(0, HIDDEN, UNITS):
        x = _rectify(hidden, tail, row, inside, start, HIDDEN, UNITS)
        weights = tl.load(tail + _weight_index(start, HIDDEN, ACTIONS, UNITS))
        outputs = tl.dot(x, tl.trans(weights), outputs, input_precision=PRECISION)
    return outputs + tl.load(tail + _bias_index(HIDDEN, ACTIONS))[None, :]


@triton.jit
def _log_softmax(outputs, is_action):
    """Compute log-probabilities from the logits; 0 in the value's column."""
    logits = tl.where(is_action, outputs, float("-inf"))
    logits = logits - tl.max(logits, 1)[:, None]
    return tl.where(is_action, logits - tl.log(tl.sum(tl.exp(logits), 1))[:, None], 0.0)


@triton.jit
def _less_weight(one, other):
    """Share of the gradient of min(one, other) that goes to one; half if they are equal."""
    return tl.where(one == other, 0.5, tl.where(one > other, 0.0, 1.0))


@triton.jit
def _clamp(x, low, high):
    return tl.where(x < low, low, tl.where(x > high, high, x))


@triton.jit
def _back(
    to_outputs,
    hidden,
    tail,
    weights,
    to_hidden,
    row,
    inside,
    start,
    HIDDEN: tl.constexpr,
    UNITS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Store the gradient of hidden for some units; return shares of the gradients of their bias and weights."""
    x = _rectify(hidden, tail, row, inside, start, HIDDEN, UNITS)
    to_x = tl.dot(to_outputs, weights, input_precision=PRECISION)
    to_x = tl.where(x <= 0.0, 0.0, to_x)
    at = row[:, None] * HIDDEN + start + tl.arange(0, UNITS)[None, :]
    tl.store(to_hidden + at, to_x.to(to_hidden.dtype.element_ty), mask=inside[:, None])
    return tl.sum(to_x, 0), tl.dot(tl.trans(to_outputs), x, input_precision=PRECISION)


@triton.jit
def loss_gradient(
    hidden,
    tail,
    order,
    actions,
    log_probabilities,
    values,
    returns,
    advantages,
    clip,
    entropy,
    alpha,
    to_hidden,
    shares,
    size,
    REGULARISED: tl.constexpr,
    VALUE_WEIGHT: tl.constexpr,
    HIDDEN: tl.constexpr,
    ACTIONS: tl.constexpr,
    BLOCK: tl.constexpr,
    UNITS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Compute the gradient of `losses.total_loss`: of hidden, and for each program its share of the tail's, (TAIL,).

    Row i of hidden belongs to the step order[i] of the rollout; if regularised, row size + i to its augmented frame.
    As in PyTorch, equal arguments of a minimum or maximum get half of the gradient each, and a clamp passes it
    at its bounds.
    """
    program = tl.program_id(0)
    row = program * BLOCK + tl.arange(0, BLOCK)
    inside = row < size
    output = tl.arange(0, ACTIONS + 1)[None, :]
    is_action = output < ACTIONS
    outputs = _evaluate(hidden, tail, row, inside, HIDDEN, ACTIONS, BLOCK, UNITS, PRECISION)
    log_policy = _log_softmax(outputs, is_action)
    policy = tl.where(is_action, tl.exp(log_policy), 0.0)
    value = tl.sum(tl.where(is_action, 0.0, outputs), 1)

    step = tl.load(order + row, mask=inside, other=0)
    chosen = output == tl.load(actions + step, mask=inside, other=0)[:, None]
    advantage = tl.load(advantages + step, mask=inside, other=0.0)
    target = tl.load(returns + step, mask=inside, other=0.0)
    old = tl.load(values + step, mask=inside, other=0.0)
    range_ = tl.load(clip)

    # -min(ρ A, clip(ρ, 1 ± ε) A), by log π(a)
    new = tl.sum(tl.where(chosen, log_policy, 0.0), 1)
    ratio = tl.exp(new - tl.load(log_probabilities + step, mask=inside, other=0.0))
    near = _clamp(ratio, 1.0 - range_, 1.0 + range_)
    plain, clipped = ratio * advantage, near * advantage
    to_ratio = -advantage * (_less_weight(plain, clipped) + tl.where(near == ratio, _less_weight(clipped, plain), 0.0))
    to_chosen = to_ratio * ratio

    # ½ max((V - R)², (V_old ± ε - R)²), by V
    change = value - old
    limited = _clamp(change, -range_, range_)
    plain, clipped = value - target, old + limited - target
    weight = _less_weight(-plain * plain, -clipped * clipped)
    other_weight = tl.where(limited == change, _less_weight(-clipped * clipped, -plain * plain), 0.0)
    to_value = VALUE_WEIGHT * (weight * plain + other_weight * clipped)

    # -entropy H, by the logits: entropy π (log π + H)
    disorder = -tl.sum(policy * log_policy, 1)
    to_logits = to_chosen[:, None] * (tl.where(chosen, 1.0, 0.0) - policy)
    to_logits += tl.load(entropy) * policy * (log_policy + disorder[:, None])
    to_outputs = tl.where(is_action, to_logits, to_value[:, None]) / size
    to_outputs = tl.where(inside[:, None], to_outputs, 0.0)
    to_bias = tl.sum(to_outputs, 0)

    if REGULARISED:
        # KL[π(.|s) || π(.|f(s))] + ½ (V(f(s)) - V(s))²; the clean side is fixed. Rows outside have no difference.
        outputs = _evaluate(hidden, tail, row + size, inside, HIDDEN, ACTIONS, BLOCK, UNITS, PRECISION)
        augmented_policy = tl.where(is_action, tl.exp(_log_softmax(outputs, is_action)), 0.0)
        difference = tl.where(is_action, augmented_policy - policy, outputs - value[:, None])
        to_augmented = difference * tl.load(alpha) / size
        to_bias += tl.sum(to_augmented, 0)

    share = shares + program * (HIDDEN + (ACTIONS + 1) * (HIDDEN + 1))
    tl.store(share + _bias_index(HIDDEN, ACTIONS), to_bias)
    for start in range(0, HIDDEN, UNITS):
        at = _weight_index(start, HIDDEN, ACTIONS, UNITS)
        weights = tl.load(tail + at)
        to_units, to_weights = _back(
            to_outputs, hidden, tail, weights, to_hidden, row, inside, start, HIDDEN, UNITS, PRECISION
        )
        if REGULARISED:
            more_to_units, more_to_weights = _back(
                to_augmented, hidden, tail, weights, to_hidden, row + size, inside, start, HIDDEN, UNITS, PRECISION
            )
            to_units += more_to_units
            to_weights += more_to_weights
        tl.store(share + start + tl.arange(0, UNITS), to_units)
        tl.store(share + at, to_weights)
