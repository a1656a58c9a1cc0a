"""Several runs side by side: who belongs together, and what they scored."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from popbandits import PBT, PB2Mix, log
from popbandits.errors import ArgumentError
from popbandits.reports.report import write_report
from popbandits.reports.run import Run
from popbandits.reports.several import comparison_page
from popbandits.reports.status import status
from popbandits.reports.tables import group_runs, score_tables
from tests.reports.played import Climber, Clumsy, play


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
    tables = score_tables(group_runs(runs))
    assert list(tables) == ["Final score", "test_score"]
    scores, halves = (table["leaper"]["PBT"] for table in tables.values())
    assert halves == pytest.approx([score / 2 for score in scores])
    finals = [run.scores[-1].max() for run in runs if run.method == "PBT" and "leaper" in run.name]
    assert scores == pytest.approx(finals)


def test_runs_are_grouped_by_what_the_reader_names(tmp_path: Path) -> None:
    start = {"lr": 0.001, "augmentation": "crop"}
    wide, narrow = ({"lr": (0.0001, high), "augmentation": ["crop", "no"]} for high in (0.1, 0.01))
    made = [
        play(tmp_path / name, rounds=2, method=PBT(), space=given, population=size, **more)
        for name, given, size, more in (
            ("a", wide, 2, {}),
            ("b", wide, 3, {"start": start}),
            ("c", narrow, 3, {"start": start}),
        )
    ]
    runs = [Run.read(directory) for directory in made]

    def grouped(by: str) -> list[list[str]]:
        return [
            sorted(run.name for run in group) for groups in group_runs(runs, by).values() for group in groups.values()
        ]

    assert sorted(grouped("run")) == [["a"], ["b"], ["c"]]
    assert sorted(grouped("space")) == [["a", "b"], ["c"]]
    assert [sorted(groups) for groups in group_runs(runs, "space").values()] == [
        ["space, lr 0.0001 to 0.01", "space, lr 0.0001 to 0.1"]
    ]
    by_size, by_start = group_runs(runs[:2], "size"), group_runs(runs[:2], "start")
    assert [list(groups) for groups in by_size.values()] == [["2 members", "3 members"]]
    assert [list(groups) for groups in by_start.values()] == [["random start", "start augmentation crop · lr 0.001"]]
    page, figures = comparison_page(runs, lambda: "", "space")
    assert "By space" in page
    assert {row["run"] for row in figures[0].data["each0"]} == {"a", "b", "c"}
    with pytest.raises(ArgumentError, match="by must be one of method, run, size, space, start, got 'colour'"):
        write_report(made, tmp_path / "report.html", by="colour")


def test_runs_of_one_name_in_different_folders_are_told_apart(tmp_path: Path) -> None:
    runs = [
        Run.read(play(tmp_path / folder / "first", rounds=2, method=PBT(), seed=seed))
        for seed, folder in enumerate(("a", "b"))
    ]
    (groups,) = group_runs(runs, "run").values()
    assert [[run.directory.parent.name for run in group] for group in groups.values()] == [["a"], ["b"]]
    long = tmp_path / ("a_long_name_of_a_folder_that_has_everything" * 2)
    runs = [replace(run, directory=long / end / "first") for run, end in zip(runs, "ab", strict=True)]
    assert [name[-12:] for name in next(iter(group_runs(runs, "run").values()))] == ["everything/a", "everything/b"]
    (figure, *_) = comparison_page(runs, lambda: "")[1]
    # One line for each run, not one that goes there and back.
    assert [(row["line"], row["round"]) for row in figure.data["each0"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_groups_that_differ_only_at_the_end_of_a_long_name_stay_apart(tmp_path: Path) -> None:
    start = {f"a_hyperparameter_with_a_name_of_its_own_{i}": 0.5 for i in range(2)} | {"augmentation": "crop"}
    space = dict.fromkeys(list(start)[:2], (0.0, 1.0)) | {"augmentation": ["crop", "no"], "lr": (0.001, 0.1)}
    runs = [
        Run.read(play(tmp_path / name, rounds=2, method=PBT(), space=space, start=start | {"lr": rate}))
        for name, rate in (("slow", 0.01), ("fast", 0.02))
    ]
    (groups,) = group_runs(runs, "start").values()
    assert [[run.name for run in group] for group in groups.values()] == [["slow"], ["fast"]]
    assert [name[-7:] for name in groups] == ["lr 0.01", "lr 0.02"]


def test_ranges_on_another_scale_are_another_space(tmp_path: Path) -> None:
    runs = [
        Run.read(play(tmp_path / name, rounds=2, method=PBT(), space={"lr": rate, "augmentation": ["crop", "no"]}))
        for name, rate in (("linear", (0.001, 0.1)), ("log", log(0.001, 0.1)))
    ]
    (groups,) = group_runs(runs, "space").values()
    assert list(groups) == ["space, lr 0.001 to 0.1", "space, lr log 0.001 to 0.1"]


def test_scores_that_go_opposite_ways_are_not_averaged(tmp_path: Path) -> None:
    runs = [Run.read(play(tmp_path / mode, rounds=2, method=PBT(), mode=mode)) for mode in ("max", "min")]
    assert [*group_runs(runs, "size")] == ["Climber, score mode max", "Climber, score mode min"]
    page = comparison_page(runs, lambda: "")[0]
    assert "more is better, but less on Climber, score mode min." in page.replace("<wbr>", "")
    assert page.count("Nothing is compared with PBT on Climber, score mode ") == 2
    # A task of another name does not say how its scores go.
    other = Run.read(play(tmp_path / "other", Clumsy, rounds=2, method=PBT(), mode="min"))
    assert "more is better, but less on Clumsy." in comparison_page([runs[0], other], lambda: "")[0]
    assert "; less is better." in comparison_page([runs[1], other], lambda: "")[0]
