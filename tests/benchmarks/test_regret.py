"""The table of regrets: ratios are of means over paired seeds, and only learnable problems count."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks.regret import counts, interval, overall, parse, ratio_draws, ratios
from benchmarks.simulate import RunResult


def result(problem: str, method: str, seed: int, regret: float) -> RunResult:
    numbers = {"regret": regret, "best": regret, "final": 0.0, "seconds": 0.1, "fallbacks": 0}
    return RunResult(problem, method, seed, 4, 50, explore="replaced", quantile=0.25, **numbers)  # type: ignore[arg-type]


def test_pairing_removes_what_the_seeds_have_in_common() -> None:
    baseline = np.random.default_rng(0).uniform(1, 100, 20)
    assert interval(ratio_draws(baseline / 2, baseline, np.random.default_rng(1))) == pytest.approx((0.5, 0.5))


def test_the_ratio_is_of_means_and_lies_in_its_interval() -> None:
    rng = np.random.default_rng(2)
    method, baseline = rng.uniform(1, 2, 20), rng.uniform(2, 4, 20)
    draws = ratio_draws(method, baseline, rng)
    low, high = interval(draws)
    assert draws[0] == pytest.approx(method.mean() / baseline.mean())
    assert low < draws[0] < high


def test_the_overall_mean_leaves_out_noise_and_sincos() -> None:
    assert [name for name in ("sincos", "noise", "drift", "trap") if counts(name)] == ["drift", "trap"]
    factors = {"drift": 0.5, "trap": 2.0, "noise": 9.0, "sincos": 9.0}
    results = [
        result(problem, method, seed, (1 + seed) * (1 if method == "pbt" else factor))
        for problem, factor in factors.items()
        for method in ("pbt", "pb2-fuse")
        for seed in range(3)
    ]
    table = overall(results, ratios(results))
    assert list(table.columns[1].cells) == ["", "1.00 \\[1.00, 1.00]"]
    assert list(table.columns[2].cells) == ["", "trap"]


def test_a_result_survives_its_file() -> None:
    one = result("drift", "pbt", 3, 1 / 3)
    assert RunResult(**json.loads(json.dumps(dataclasses.asdict(one)))) == one


def test_a_method_is_known_with_its_variants_only() -> None:
    assert parse(["--methods", "pb2-fuse/half", "pbt"]).methods == ["pb2-fuse/half", "pbt"]
    with pytest.raises(SystemExit):
        parse(["--methods", "pb2-fuse/most"])
