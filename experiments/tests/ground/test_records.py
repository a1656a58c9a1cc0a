"""Results of real training: what is stored is what was measured, and a killed sitting loses one line at most."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from popbandits.errors import HistoryError
from popbandits_experiments.ground.records import Key, Record, append, done, read
from popbandits_experiments.json_lines import append_lines


def make(**changes: Any) -> Record:
    given: dict[str, Any] = {
        "task": "Pendulum",
        "space": "wide",
        "rounds": 30,
        "steps": 307_200,
        "population": 4,
        "method": "pbt",
        "seed": 0,
        "final": -200.5,
        "final_error": 3.25,
        "curve": tuple(-1200.0 + 100 * tenth for tenth in range(10)),
        "late_choices": 10,
        "late_on_bound": 2,
        "late_low_lr": 0,
        "group": "device",
        "split": "confirmation",
        "device": "two cores",
        "seconds": 1.5,
    }
    return Record(**given | changes)


def test_records_survive_their_files(tmp_path: Path) -> None:
    records = [make(), make(seed=1), make(space="narrow"), make(rounds=100), make(task="Acrobot", method="defaults")]
    append(records[:2], tmp_path)
    append(records[2:], tmp_path)
    assert sorted(read(tmp_path), key=str) == sorted(records, key=str)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"{name}.jsonl" for name in ("Pendulum-wide-30", "Pendulum-narrow-30", "Pendulum-wide-100")} | {
        "Acrobot-wide-30.jsonl"
    }


def test_a_score_is_stored_with_six_digits(tmp_path: Path) -> None:
    append([make(final=-1234.56789, curve=(1 / 3,) * 10)], tmp_path)
    (stored,) = read(tmp_path)
    assert (stored.final, stored.curve[0]) == (-1234.57, 0.333333)


def test_done_names_what_is_stored_and_nothing_else(tmp_path: Path) -> None:
    keys = [Key("Pendulum", "wide", rounds, "pbt", seed) for rounds in (30, 100) for seed in range(3)]
    assert done(keys, tmp_path) == set()
    append([make(seed=1), make(seed=2, rounds=100), make(method="random")], tmp_path)
    assert done(keys, tmp_path) == {keys[1], keys[5]}


@pytest.mark.parametrize("kept", [1, 200, 400])
def test_a_line_that_a_kill_cut_off_is_dropped_and_written_again(tmp_path: Path, kept: int) -> None:
    append([make(seed=0), make(seed=1)], tmp_path)
    (path,) = tmp_path.iterdir()
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[: min(kept, len(second) - 1)])
    with pytest.raises(HistoryError, match=r"Pendulum-wide-30\.jsonl:2: the last line has no end"):
        read(tmp_path)
    keys = [make(seed=seed).key for seed in range(3)]
    assert done(keys, tmp_path) == {keys[0]}
    append([make(seed=1)], tmp_path)
    assert path.read_bytes() == first + second


def test_a_run_cannot_be_stored_twice(tmp_path: Path) -> None:
    append([make(seed=3), make(seed=4)], tmp_path)
    with pytest.raises(HistoryError, match=r"stored once, got .*method pbt, seed 4, population 4 on lines 2 and 3 of"):
        append([make(seed=4, final=0.0)], tmp_path)
    assert len(read(tmp_path)) == 2
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(HistoryError, match=r"seed 3, population 4 on lines 1 and 3 of .*Pendulum-wide-30"):
        read(tmp_path)


def test_a_rejected_batch_leaves_every_file_as_it_was(tmp_path: Path) -> None:
    append([make(seed=0)], tmp_path)
    with pytest.raises(HistoryError, match="stored once"):
        append([make(rounds=100), make(seed=0)], tmp_path)
    assert read(tmp_path) == [make(seed=0)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "Expecting value"),
        ('{"task": "Pendulum', "Unterminated string"),
        ("[]", "must be a JSON object, got list"),
        ("{}", "must have every field, missing: task, space"),
        (json.dumps(dataclasses.asdict(make()) | {"colour": 1}), "known fields only, got colour"),
        (json.dumps(dataclasses.asdict(make()) | {"curve": 1}), "not iterable"),
        (json.dumps(dataclasses.asdict(make()) | {"final": float("nan")}), "final must be a finite number, got nan"),
    ],
)
def test_a_damaged_line_is_named_by_its_number(tmp_path: Path, line: str, problem: str) -> None:
    append([make(seed=seed) for seed in range(3)], tmp_path)
    (path,) = tmp_path.iterdir()
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, lines[2], ""]))
    with pytest.raises(HistoryError, match=rf"Pendulum-wide-30\.jsonl:2: damaged line: .*{problem}"):
        read(tmp_path)


def test_a_line_in_the_wrong_file_is_found(tmp_path: Path) -> None:
    append([make()], tmp_path)
    (path,) = tmp_path.iterdir()
    path.rename(tmp_path / "Acrobot-wide-30.jsonl")
    with pytest.raises(HistoryError, match=r"Acrobot-wide-30\.jsonl:1: a line of Pendulum-wide-30\.jsonl"):
        read(tmp_path)


def test_runs_with_different_budgets_do_not_share_a_file(tmp_path: Path) -> None:
    append([make()], tmp_path)
    with pytest.raises(HistoryError, match="the same steps, got 307200 on line 1 and 1000 on line 2"):
        append([make(seed=1, steps=1000)], tmp_path)


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"no results in .*: it has no \.jsonl file"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"task": "a/b"}, "task must be usable in a file name, got 'a/b'"),
        ({"method": ""}, "method must be a text, got ''"),
        ({"space": "broad"}, "space must be one of wide, shifted, narrow, got 'broad'"),
        ({"split": "test"}, "split must be one of development, confirmation, got 'test'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"rounds": 30.0}, "rounds must be a whole number of at least 1, got 30.0"),
        ({"late_low_lr": 11}, "late_low_lr must be a whole number of at most late_choices, 10, got 11"),
        ({"final_error": -1.0}, "final_error must be a finite number of at least 0"),
        ({"curve": (1.0,) * 9}, "curve must be 10 finite numbers"),
    ],
)
def test_a_record_refuses_what_cannot_be(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(HistoryError, match=problem):
        make(**changes)


def test_records_from_before_a_field_was_added_are_read(tmp_path: Path) -> None:
    append([make()], tmp_path)
    (path,) = tmp_path.iterdir()
    assert not {"kept", "kept_error", "intervals"} & json.loads(path.read_text()).keys()
    append([make(seed=1, kept=-150.0, kept_error=2.0, intervals=118)], tmp_path)
    old, new = read(tmp_path)
    assert (old.kept, old.kept_error, old.intervals) == (None, None, None)
    assert (new.kept, new.kept_error, new.intervals) == (-150.0, 2.0, 118)


def test_populations_of_other_sizes_are_other_runs_in_other_files(tmp_path: Path) -> None:
    append([make(), make(population=8)], tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"Pendulum-wide-30.jsonl", "Pendulum-wide-30-8-members.jsonl"}
    key = Key("Pendulum", "wide", 30, "pbt", 0)
    assert done([key, key._replace(population=8), key._replace(population=16)], tmp_path) == {
        key,
        key._replace(population=8),
    }


@pytest.mark.parametrize("intervals", [0, 121, 1.0])
def test_a_run_cannot_have_trained_more_than_its_budget(intervals: Any) -> None:
    with pytest.raises(HistoryError, match="intervals must be a whole number from 1 to population x rounds, 120"):
        make(intervals=intervals)


def test_several_writers_of_a_file_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    rows = [{"writer": writer, "row": row} for writer in range(4) for row in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda row: append_lines(path, [row]), rows))
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(found, key=lambda row: (row["writer"], row["row"])) == rows
