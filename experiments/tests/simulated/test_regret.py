"""The tables of regrets: ratios are of means over paired seeds, only learnable problems count, groups stay apart."""

import dataclasses
import json

import numpy as np
import pytest

from popbandits_experiments.simulated.problems import PROBLEMS
from popbandits_experiments.simulated.regret import by_problem, counts, interval, overall, parse, ratio_draws, ratios
from popbandits_experiments.simulated.simulate import RunResult


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


def paired(factors: dict[str, float]) -> list[RunResult]:
    """Runs of PBT, and of a method whose regret is PBT's times a factor."""
    return [
        result(problem, method, seed, (1 + seed) * (1 if method == "pbt" else factor))
        for problem, factor in factors.items()
        for method in ("pbt", "pb2-fuse")
        for seed in range(3)
    ]


def test_the_mean_of_totals_leaves_out_noise_and_sincos() -> None:
    assert [name for name in ("sincos", "noise", "drift", "trap") if counts(name)] == ["drift", "trap"]
    results = paired({"drift": 0.5, "trap": 2.0, "noise": 9.0, "sincos": 9.0})
    table = overall(results, ratios(results))
    assert list(table.columns[2].cells) == ["", "1.00 \\[1.00, 1.00]"]
    assert list(table.columns[3].cells) == ["", "trap"]


def test_levels_and_running_totals_have_a_mean_each() -> None:
    results = paired({"level": 0.25, "plateau": 1.0, "drift": 2.0})
    table = overall(results, ratios(results))
    assert [list(table.columns[i].cells)[1] for i in (1, 2)] == ["0.50 \\[0.50, 0.50]", "2.00 \\[2.00, 2.00]"]


def test_a_ratio_of_zero_does_not_decide_a_mean() -> None:
    results = paired({"level": 0.0, "corners": 1.0})
    assert list(overall(results, ratios(results)).columns[1].cells)[1] == "0.10 \\[0.10, 0.10]"


@pytest.mark.parametrize(("problem", "ratio"), [("level", 0.5), ("drift", 3.0)])
def test_levels_are_judged_by_the_member_handed_over_and_totals_by_all_members(problem: str, ratio: float) -> None:
    pbt = [result(problem, "pbt", seed, 1.0) for seed in range(3)]
    fuse = [dataclasses.replace(result(problem, "pb2-fuse", seed, 3.0), best=0.5) for seed in range(3)]
    assert ratios(pbt + fuse)[problem, "pb2-fuse"][0] == ratio


def test_each_table_holds_the_problems_of_its_group() -> None:
    results = paired({"drift": 0.5, "lucky": 0.5, "level": 0.5})
    shown = {
        g: [c for c in by_problem(results, ratios(results), g).columns[0].cells if c] for g in ("levels", "totals")
    }
    assert shown == {"levels": ["level", "lucky"], "totals": ["drift"]}


def test_groups_of_problems_can_be_named_and_levels_come_first() -> None:
    levels = [name for name, problem in PROBLEMS.items() if problem.level]
    assert parse(["--problems", "drift", "levels"]).problems == [*levels, "drift"]
    assert parse(["--problems", "all"]).problems == list(PROBLEMS)


def test_running_totals_are_a_minority_of_the_usual_problems() -> None:
    usual = parse([]).problems
    assert sum(PROBLEMS[name].level for name in usual) > len(usual) / 2


def test_a_result_survives_its_file() -> None:
    one = result("drift", "pbt", 3, 1 / 3)
    assert RunResult(**json.loads(json.dumps(dataclasses.asdict(one)))) == one


def test_a_method_is_known_with_its_variants_only() -> None:
    assert parse(["--methods", "pb2-fuse/half", "pbt"]).methods == ["pb2-fuse/half", "pbt"]
    with pytest.raises(SystemExit):
        parse(["--methods", "pb2-fuse/most"])
