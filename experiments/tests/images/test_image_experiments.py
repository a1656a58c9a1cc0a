"""The experiments on images: schedules and their controls, what is stored, and populations in company."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from popbandits.errors import HistoryError
from popbandits_experiments.ground.deciding import DEFAULTS, Deciders
from popbandits_experiments.images import architectures, augmentation, augmented
from popbandits_experiments.images.__main__ import main
from popbandits_experiments.images.augmentation import LEARNT, MEAN, MIDDLE, POPULATION, SHUFFLED, TUNED, controls
from popbandits_experiments.images.augmented import AugmentedClassifiers
from popbandits_experiments.images.learning import Learnt, learn, replay, stretch
from popbandits_experiments.images.results import Compared, Key, Result, append, read
from popbandits_experiments.images.sets import Images, Task

SMALL = Task(training=64, validation=300)
COMMON = ["--sets", "digits", "--epochs", "4", "--rounds", "4", "--device", "cpu", "--workers", "1"]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "digits.jsonl").read_text().splitlines()]


def config(**changes: Any) -> dict[str, Any]:
    return {**augmented.middle(), **changes}


# Schedules


SCHEDULE = [config(rotate_p=p, most=most) for p, most in ((0.1, 2), (0.2, 3), (0.6, 3), (0.7, 1))]


@pytest.mark.parametrize("method", TUNED)
def test_the_controls_have_the_same_augmentation_at_other_times(method: str) -> None:
    schedule = [config(rotate_p=i / 30, most=3 if i % 3 else 2) for i in range(30)]
    found = controls(method, schedule, seed=1)
    assert list(found) == [LEARNT, SHUFFLED, MEAN]
    assert found[LEARNT] == schedule
    order = [round(30 * each["rotate_p"]) for each in found[SHUFFLED]]
    assert order != sorted(order) == list(range(30))
    assert found[SHUFFLED] == [schedule[i] for i in order]
    assert found[SHUFFLED] != controls(method, schedule, seed=2)[SHUFFLED]
    assert found[MEAN] == [config(rotate_p=pytest.approx(14.5 / 30), most=3)] * 30


def test_constant_settings_need_no_controls_but_no_augmentation_has_its_opposite() -> None:
    assert list(controls("random", SCHEDULE, 0)) == [LEARNT]
    assert controls(DEFAULTS, SCHEDULE, 0)[MIDDLE] == [augmented.middle()] * 4


@pytest.mark.parametrize(("length", "expected"), [(4, [0, 1, 2, 3]), (3, [0, 0, 1, 2]), (1, [0, 0, 0, 0])])
def test_a_lineage_that_is_shorter_than_the_run_is_stretched(length: int, expected: list[int]) -> None:
    found = stretch(SCHEDULE[:length], 4)
    assert found == [SCHEDULE[i] for i in expected]
    assert all(one is not SCHEDULE[i] for one, i in zip(found, expected, strict=True))


def test_the_strength_of_an_operation_is_its_probability_times_its_magnitude() -> None:
    schedule = [config(rotate_p=i / 20, rotate_m=0.5) for i in range(20)]
    found = augmentation.in_tenths(schedule)
    assert found["rotate"] == pytest.approx([(2 * tenth + 0.5) / 20 / 2 for tenth in range(10)])
    assert found["shear"] == pytest.approx([0.25] * 10)


def make(seeds: Any, splits: Any, epochs: int, device: str) -> AugmentedClassifiers:
    return AugmentedClassifiers(seeds, Images.load("digits"), SMALL, epochs, device, splits)


def test_networks_of_one_seed_differ_by_their_schedules_alone() -> None:
    none = [dict(augmented.space().get_default_configuration())] * 2
    other = [none[0], config()]
    alike, again, unlike, elsewhere = replay(make, [none, none, other, none], [3, 3, 3, 4], 4, "cpu")
    assert alike == again
    assert len({alike, unlike, elsewhere}) == 3
    assert replay(make, [other], [3], 4, "cpu") == [unlike]


def learnt(seeds: range, methods: tuple[str, ...]) -> dict[tuple[str, int], Learnt]:
    deciders = Deciders(1)
    try:
        return learn(make, {"wide": augmented.space}, methods, seeds, 8, 8, deciders, "cpu")
    finally:
        deciders.close()


def test_a_population_learns_the_same_schedule_alone_and_beside_others() -> None:
    together = learnt(range(2, 4), ("pbt", "patient-pbt", DEFAULTS))
    alone = learnt(range(3, 4), ("patient-pbt",))
    assert together["patient-pbt", 3] == alone["patient-pbt", 3]
    assert len({one.final for one in together.values()}) > 3
    for (method, _), one in together.items():
        assert 1 <= len(one.schedule) <= 8
        if method == DEFAULTS:
            assert one.schedule == [dict(augmented.space().get_default_configuration())] * 8
        assert all(set(each) == set(augmented.space()) for each in one.schedule)
        assert method == "patient-pbt" or len(one.schedule) == 8
    assert any(one.schedule[0] != one.schedule[-1] for one in together.values())


# Commands


def test_augmentation_is_run_once_and_its_table_has_every_arm(tmp_path: Path, capsys: Any) -> None:
    run = ["augmentation", "run", *COMMON, "--results", str(tmp_path)]
    assert main([*run, "--seeds", "0-1"]) == 0
    assert main([*run, "--seeds", "0-2"]) == 0
    stored = lines(tmp_path)
    assert [(line["seed"], line["method"], line["arm"]) for line in stored] == [
        (seed, method, arm)
        for seed in (0, 1)
        for method, arms in {
            **dict.fromkeys(TUNED, (POPULATION, LEARNT, SHUFFLED, MEAN)),
            "random": (POPULATION, LEARNT),
            DEFAULTS: (POPULATION, LEARNT, MIDDLE),
        }.items()
        for arm in arms
    ]
    assert all(line["budget"] == 4 and 0 < line["epochs"] <= 4 and 5 < line["final"] <= 100 for line in stored)
    assert capsys.readouterr().out.count("digits, augmentation: seeds") == 2
    assert main([*run, "--seeds", "0-2"]) == 0
    assert capsys.readouterr().out == ""
    assert lines(tmp_path) == stored
    assert main(["augmentation", "table", "--results", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "digits, 2 seeds" in shown
    own = {(line["method"], line["arm"]): [] for line in stored}
    for line in stored:
        own[line["method"], line["arm"]].append(line["final"])
    mean = sum(own["pbt", LEARNT]) / 2
    assert f"| pbt: trained anew with the learnt schedule | {mean:.2f} [" in shown
    more = mean - sum(own[DEFAULTS, LEARNT]) / 2
    assert f"{more:+.2f} [" in shown.partition("pbt: trained anew with the learnt schedule")[2].splitlines()[0]
    for words in ("random constant, best of 4, trained anew", "| no augmentation |", "| cutout |", "last third"):
        assert words in shown


def test_architectures_are_run_once_and_the_table_has_every_arm(tmp_path: Path, capsys: Any) -> None:
    run = ["architectures", "run", *COMMON, "--results", str(tmp_path), "--seeds", "0-1"]
    assert main(run) == 0
    stored = lines(tmp_path)
    assert [(line["arm"], line["method"]) for line in stored] == [
        (arm, method) for arm in architectures.ARMS for method in architectures.METHODS
    ]
    assert main(run) == 0
    assert lines(tmp_path) == stored
    capsys.readouterr()
    assert main(["architectures", "table", "--results", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for line in stored:
        row = shown.partition(f"| {line['method']}, {line['arm']} | {line['final']:.2f} |")[2].splitlines()[0]
        if line["arm"] != "fixed":
            assert row.split(" | ")[-3].strip() == f"{line['details']['width']:.1f}"


@pytest.mark.parametrize(
    ("arm", "expected"),
    [
        ("distil", {"width": 32, "depth": 1, "changes": 2}),
        ("inherit", {"width": 8, "depth": 1, "changes": 0}),
        ("again", {"width": 64, "depth": 1, "changes": 2}),
    ],
)
def test_changes_of_the_architecture_are_counted_along_the_lineage(arm: str, expected: dict[str, int]) -> None:
    shapes = [(8, 1), (8, 1), (8, 2), (8, 2), (32, 1)]
    schedule = [{"width": width, "depth": depth} for width, depth in shapes]
    assert architectures.architecture(schedule, arm) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rounds", "3"], "--rounds must divide the 4 epochs, got 3"),
        (["--seeds-at-once", "0"], "--seeds-at-once must be at least 1, got 0"),
        (["--epochs", "8"], "--epochs must be those of .*, 4, got 8; name another folder"),
        (["--seeds", "7-8"], "has a part of seed 7 of digits only, without population of pbt; name another folder"),
    ],
)
def test_a_run_that_cannot_be_is_refused(options: list[str], message: str, tmp_path: Path, capsys: Any) -> None:
    append([Result("digits", "pbt", LEARNT, 7, 4, 4, 50.0, 50.0, "none")], tmp_path)
    assert main(["augmentation", "run", *COMMON, "--results", str(tmp_path), *options]) == 1
    assert re.search(message, capsys.readouterr().err)


# Results


def result(arm: str, seed: int, final: float) -> Result:
    return Result("digits", "pbt", arm, seed, 300, 300, final + 1, final, "none", {"tenths": {"rotate": [0.1]}})


def test_results_are_read_as_they_were_stored_and_a_torn_line_is_dropped(tmp_path: Path) -> None:
    first, second = result("learnt", 0, 90.0), result("learnt", 1, 91.5)
    assert read(tmp_path / "nothing") == {}
    append([first], tmp_path)
    with (tmp_path / "digits.jsonl").open("a") as file:
        file.write('{"images": "dig')
    assert list(read(tmp_path).values()) == [first]
    append([second], tmp_path)
    assert list(read(tmp_path).values()) == [first, second]
    append([second], tmp_path)
    with pytest.raises(HistoryError, match=r"digits.jsonl:3: a run must be stored once, got Key.*seed=1\) twice"):
        read(tmp_path)
    (tmp_path / "digits.jsonl").write_text('{"images": 1}\n')
    with pytest.raises(HistoryError, match=r"digits\.jsonl:1: damaged line"):
        read(tmp_path)


def test_only_seeds_that_every_arm_has_are_compared() -> None:
    found = [result("learnt", seed, 90.0 + seed) for seed in range(4)]
    found += [result("mean", seed, 89.0 + seed % 2) for seed in range(1, 6)]
    compared = Compared.among({each.key: each for each in found}, "digits")
    assert compared.seeds == [1, 2, 3]
    assert compared.finals(("pbt", "learnt")).tolist() == [91, 92, 93]
    difference = compared.difference(("pbt", "learnt"), ("pbt", "mean"))
    assert difference.value == pytest.approx((1 + 3 + 3) / 3)
    assert difference.low < difference.value < difference.high
    assert Key("digits", "pbt", "mean", 5) not in [one.key for one in compared.of(("pbt", "mean"))]
