"""Random numbers by key: the published generator, no company, no overlap, the right distributions."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from popbandits_experiments.batched.random import Streams, derive_keys, keys_of, mix

MASK = (1 << 64) - 1
CPU = torch.device("cpu")


def split_mix(state: int, count: int) -> list[int]:
    """Compute SplitMix64 with Python's integers, which do not overflow (Steele et al. 2014)."""
    found = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        bits = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
        found.append(bits ^ (bits >> 31))
    return found


def test_a_stream_is_split_mix_64_with_the_key_as_its_state() -> None:
    # The first numbers that the generator's reference implementation gives for this state.
    assert split_mix(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    keys = torch.tensor([1234567, -5, 2**63 - 1, -(2**63)])
    found = Streams(keys).uniform(2, 4).flatten(1)
    expected = [[bits >> 40 for bits in split_mix(key & MASK, 8)] for key in keys.tolist()]
    assert (found * 2**24).long().tolist() == expected


def test_a_seed_becomes_the_first_number_that_it_gives() -> None:
    seeds = [0, 1, 2**63, 2**64 - 1, 2**64 + 1, -1]
    found = [key & MASK for key in keys_of(seeds, CPU).tolist()]
    assert found == [split_mix(seed & MASK, 1)[0] for seed in seeds]


def test_numbers_depend_on_the_key_alone_and_go_on_where_they_stopped() -> None:
    keys = keys_of(range(5), CPU)
    company, alone = Streams(keys), Streams(keys[3:4])
    for shape in ((3,), (2, 7), (0,), (1,)):
        assert torch.equal(company.uniform(*shape)[3], alone.uniform(*shape)[0])
        assert torch.equal(company.normal(*shape)[3], alone.normal(*shape)[0])
    whole, parts = Streams(keys).uniform(10), Streams(keys)
    assert torch.equal(whole, torch.cat([parts.uniform(4), parts.uniform(6)], 1))


def test_derived_keys_and_their_streams_do_not_meet() -> None:
    keys = keys_of(range(20), CPU)
    derived = [keys] + [derive_keys(keys, interval) for interval in range(10)]
    derived += [derive_keys(keys, interval, member, 3) for interval, member in product(range(10), range(10))]
    every = torch.cat(derived)
    assert len(every.unique()) == len(every)
    bits = torch.cat([mix(every[:, None] + torch.arange(1, 51) * -7046029254386353131)])  # the numbers before rounding
    assert len(bits.unique()) == bits.numel()


def test_a_fork_does_not_depend_on_what_was_drawn_and_moves_nothing() -> None:
    one, two = Streams(keys_of([1, 2], CPU)), Streams(keys_of([1, 2], CPU))
    one.uniform(5)
    forked = one.fork(3).uniform(4)
    assert torch.equal(forked, two.fork(3).uniform(4))
    assert not torch.equal(forked, two.fork(4).uniform(4))
    two.uniform(5)
    assert torch.equal(one.uniform(4), two.uniform(4))
    assert not torch.equal(forked, one.uniform(4))


def test_labels_can_differ_by_member_and_their_order_counts() -> None:
    keys = keys_of([7, 7, 7], CPU)
    one, two, three = derive_keys(keys, torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1])).tolist()
    assert len({one, two, three}) == 3
    assert one == derive_keys(keys[:1], 0, 1).item()


@pytest.mark.parametrize("members", [1, 50])
def test_uniform_and_normal_numbers_are_so_within_a_member_and_across_members(members: int) -> None:
    streams = Streams(keys_of(range(members), CPU))
    uniform, normal = streams.uniform(20_000 // members), streams.normal(20_000 // members)
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert normal.isfinite().all()
    assert kstest(uniform.flatten().numpy(), "uniform").pvalue > 1e-3
    assert kstest(normal.flatten().numpy(), "norm").pvalue > 1e-3


def test_neighbours_in_a_stream_and_in_the_population_are_uncorrelated() -> None:
    found = Streams(keys_of(range(200), CPU)).normal(200).numpy()
    bound = 4 / np.sqrt(found.size)  # four standard errors of a correlation of 0
    assert abs(np.mean(found[:, 1:] * found[:, :-1])) < bound
    assert abs(np.mean(found[1:] * found[:-1])) < bound
