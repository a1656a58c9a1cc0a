"""Several runs side by side: who belongs together, and the paper's tables worked by hand."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, PB2Mix
from popbandits.reports.run import Run
from popbandits.reports.status import status
from popbandits.reports.tables import group_runs, score_table, score_tables
from tests.reports.played import Climber, play

SCORES = {
    # Mean 8 and deviation 1 each; their sum over tasks in percent of PB2-Rand's is worked below.
    "bigfish": {"PB2-Rand": [7.0, 8.0, 9.0], "PB2-Mix": [9.0, 10.0, 11.0], "PBT": [4.0, 5.0, 9.0]},
    "leaper": {"PB2-Rand": [1.0, 2.0, 3.0], "PB2-Mix": [2.0, 2.0, 2.0], "PBT": [1.5, 1.5, 1.5]},
}


def the_table(sign: float = 1.0) -> Any:
    """The table of made-up scores: a run is its own score here."""
    found = score_table(SCORES, "Score", lambda score: score, sign)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_a_cell_is_the_mean_and_the_deviation_of_a_sample() -> None:
    rows = the_table().rows
    assert str(rows["bigfish"]["PB2-Rand"]) == "8 ± 1"
    assert str(rows["bigfish"]["PBT"]) == "6 ± 2.6"  # sqrt((4 + 1 + 9) / 2)
    assert str(rows["leaper"]["PB2-Mix"]) == "2 ± 0"


def test_bold_is_what_lies_within_one_deviation_of_the_best_mean() -> None:
    rows = the_table().rows
    assert {m for m, cell in rows["bigfish"].items() if cell.best} == {"PB2-Mix"}  # 10 - 1 = 9 > 8
    # Two methods share the mean of 2; the first, PB2-Rand, leads, and 2 - 1 = 1 <= 1.5.
    assert {m for m, cell in rows["leaper"].items() if cell.best} == {"PB2-Rand", "PB2-Mix", "PBT"}


def test_one_run_is_not_bold() -> None:
    found = score_table({"one": {"PBT": [1.0, 1.1], "Ours": [2.0]}}, "", lambda s: s, 1.0)  # type: ignore[dict-item, arg-type, return-value]
    assert found is not None
    assert not any(cell.best for cell in (*found.rows["one"].values(), *found.normalised.values()))


def test_a_star_needs_welchs_p_below_five_percent_and_the_better_side() -> None:
    rows = the_table().rows
    # t = 2 / sqrt(1/3 + 1/3) = 2.449 with 4 degrees of freedom: p = 0.0705.
    assert rows["bigfish"]["PB2-Mix"].p == pytest.approx(0.0705, abs=5e-5)
    assert not rows["bigfish"]["PB2-Mix"].starred
    assert math.isnan(rows["bigfish"]["PB2-Rand"].p)
    clear = score_table(
        {"one": {"PBT": [1.0, 1.1, 0.9], "Ours": [2.0, 2.1, 1.9], "Bad": [0.1, 0.2, 0.0]}}, "", lambda s: s, 1
    )  # type: ignore[dict-item, arg-type, return-value]
    assert clear is not None
    assert {m for m, cell in clear.rows["one"].items() if cell.starred} == {"Ours"}
    assert clear.rows["one"]["Bad"].p < 0.05


def test_normalised_scores_are_shares_of_the_baselines_mean_on_the_same_task() -> None:
    found = the_table()
    assert found.baseline == "PB2-Rand"
    mix = found.normalised["PB2-Mix"]
    assert mix.values == pytest.approx([112.5, 125.0, 137.5, 100.0, 100.0, 100.0])
    assert mix.mean == pytest.approx(112.5)
    assert found.normalised["PB2-Rand"].mean == pytest.approx(100.0)


def test_where_less_is_better_the_smallest_mean_leads() -> None:
    rows = the_table(sign=-1.0).rows
    assert {m for m, cell in rows["bigfish"].items() if cell.best} == {"PBT", "PB2-Rand"}  # 6 + 2.6 = 8.6 >= 8
    assert not rows["bigfish"]["PB2-Mix"].better


def test_shares_of_a_mean_that_is_not_positive_are_not_given() -> None:
    found = score_table({"one": {"PBT": [-1.0, -2.0], "Ours": [1.0, 2.0]}}, "", lambda s: s, 1.0)  # type: ignore[dict-item, arg-type, return-value]
    assert found is not None
    assert found.normalised == {}


def fish(seed: int, game: str) -> Climber:
    return Climber(seed + len(game))


def swimmer(seed: int, algorithm: str) -> Climber:
    return Climber(seed + len(algorithm))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp("runs")
    made = []
    for game in ("bigfish", "leaper"):
        for seed in range(2):
            for method in (PBT(), PB2Mix(window=8), PB2Mix()):
                where = folder / f"{game}-{seed}-{len(made)}"
                made.append(play(where, partial(fish, game=game), rounds=2, population=2, seed=seed, method=method))
    return [Run.read(directory) for directory in made]


def test_runs_are_grouped_by_what_differs_among_them(runs: list[Run]) -> None:
    tasks = group_runs(runs)
    assert list(tasks) == ["bigfish", "leaper"]
    methods = {"PBT", "PB2-Mix, window 8", "PB2-Mix, window 300"}
    assert [set(groups) for groups in tasks.values()] == [methods, methods]
    assert all(len(group) == 2 for groups in tasks.values() for group in groups.values())


def test_runs_that_differ_in_their_seed_alone_are_one_group(runs: list[Run]) -> None:
    assert [list(groups) for groups in group_runs(runs[::3]).values()] == [["PBT"], ["PBT"]]
    assert list(group_runs([runs[0], runs[3]])) == ["bigfish"]


def test_runs_of_different_spaces_are_different_tasks(runs: list[Run], tmp_path: Path) -> None:
    other = Run.read(
        play(
            tmp_path / "other",
            partial(fish, game="bigfish"),
            rounds=2,
            space={"lr": (0.1, 0.2), "augmentation": ["crop", "no"]},
        )
    )
    assert list(group_runs([runs[0], other])) == ["bigfish (space 1)", "bigfish (space 2)"]


def test_fixed_settings_are_a_method_beside_those_that_tune(runs: list[Run], tmp_path: Path) -> None:
    def alone(lr: float) -> Run:
        settings = {"lr": lr, "augmentation": "crop", "epochs": 2}
        agent = partial(fish, game="bigfish")
        return Run.read(play(tmp_path / str(lr), agent, rounds=2, population=1, space=settings))

    slow, fast = alone(0.001), alone(0.1)
    assert {task: list(groups) for task, groups in group_runs([runs[0], slow]).items()} == {
        "bigfish": ["Fixed settings", "PBT"]
    }
    assert list(group_runs([slow, fast])["bigfish"]) == ["Fixed settings, lr 0.001", "Fixed settings, lr 0.1"]


def test_agents_that_learn_in_other_ways_learn_the_same_task(tmp_path: Path) -> None:
    made = [play(tmp_path / name, partial(swimmer, algorithm=name), rounds=2, population=2) for name in ("a2c", "ppo")]
    [methods] = group_runs(map(Run.read, made)).values()
    assert [name.partition(", ")[2] for name in methods] == ["algorithm a2c", "algorithm ppo"]


def test_a_name_and_a_task_on_record_stand_in_tables(tmp_path: Path) -> None:
    named = {"name": "Baseline", "task": "the pond"}
    settings = {"lr": 0.1, "augmentation": "crop", "epochs": 2}
    alone = play(tmp_path / "alone", partial(fish, game="leaper"), rounds=2, population=1, space=settings, **named)
    tuned = play(tmp_path / "tuned", partial(fish, game="bigfish"), rounds=2, population=2, task="the pond")
    assert {task: list(groups) for task, groups in group_runs(map(Run.read, [alone, tuned])).items()} == {
        "the pond": ["Baseline", "PB2-Fuse"]
    }
    assert status(alone).method == "Baseline"


def test_the_score_and_what_was_measured_on_a_test_have_a_table_each(runs: list[Run]) -> None:
    score, test = score_tables(group_runs(runs))
    assert (score.measure, test.measure) == ("Final score", "test_score")
    cell, half = score.rows["leaper"]["PBT"], test.rows["leaper"]["PBT"]
    assert half.mean == pytest.approx(cell.mean / 2)
    finals = [run.scores[-1].max() for run in runs if run.method == "PBT" and "leaper" in run.name]
    assert cell.values == pytest.approx(finals)
