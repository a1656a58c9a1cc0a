"""Scripts for Ray's PB2 reach more with our schedulers; trials, generators and schedulers are Tune's own."""

import pytest

import popbandits.ray as schedulers
from popbandits_experiments.speed import ray_swap


# Both have a log scale and a choice; the first says so to Tune, which tests/ray/test_translation.py reads.
@pytest.mark.parametrize(
    ("problem", "seed"),
    [pytest.param("a log scale and a choice", 2, marks=pytest.mark.slow), ("drawn by sample_from", 1)],
)
def test_with_only_the_import_changed_more_is_reached_than_with_rays_pb2(problem: str, seed: int) -> None:
    theirs, ours = (ray_swap.play(scheduler, problem, 30, seed) for scheduler in (ray_swap.RAYS, schedulers.PB2Fuse))
    assert ours > theirs  # docs/migration_ray.md has more seeds
