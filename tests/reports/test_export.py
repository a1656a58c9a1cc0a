"""Exports: what is read back is what was recorded, with its types."""

import csv
import importlib.util
import io
import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

from popbandits import PBT, History, Population
from popbandits.errors import HistoryError, MissingExtraError
from popbandits.history import Assignment, Decision, Observation
from popbandits.reports.export import COLUMNS, KINDS, Kind, export
from popbandits.space import Space
from popbandits.storage import Store


def space() -> ConfigurationSpace:
    made = ConfigurationSpace(
        {
            "lr": Float("lr", (1e-5, 1.0), log=True),
            "epochs": Integer("epochs", (1, 9)),
            "augmentation": Categorical("augmentation", ["crop, or not", 'the "best"', None]),
            "momentum": Float("momentum", (0.0, 1.0)),
            "mixed": Categorical("mixed", [1, 2.5, "three"]),
            "size": Categorical("size", [16, 32]),
            "bias": Categorical("bias", [True, False]),
            "gain": 7,
        }
    )
    made.add(EqualsCondition(made["momentum"], made["size"], 16))
    return made


def run(directory: Path, told: int = 60, made: Any = None) -> History:
    """Six members for ten rounds; one interval in nine fails, and metrics differ from one to the next."""
    population = Population(space() if made is None else made, PBT(), size=6, rounds=10)
    while len(population.history) < told:
        for assignment in population.ask():
            place = len(population.history)
            metrics = {"loss": {"policy": place / 3, "value": math.nan}, "names": ["a", "b"], "episodes": place}
            metrics |= {"late": True} if place > 30 else {}
            score = None if place % 9 == 8 else place / 7 + assignment.member
            population.tell(assignment, score, steps=2.0, seconds=0.5, metrics=metrics)
    population.history.save(directory)
    return population.history


def exported(directory: Path, kind: Kind) -> bytes:
    file = io.BytesIO()
    rows = export(directory, kind, file)
    assert rows == len(History.load(directory))
    return file.getvalue()


def by_csv(directory: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(exported(directory, "csv").decode())))


def test_csv_gives_every_observation_back_to_the_last_bit(tmp_path: Path) -> None:
    history = run(tmp_path)
    rows = by_csv(tmp_path)
    assert [(int(row["member"]), int(row["round"])) for row in rows] == [o.key for o in history]
    for row, o in zip(rows, history, strict=True):
        assert row["score"] == ("" if o.failed else repr(o.score))
        assert row["change"] == ("" if math.isnan(o.change) else repr(o.change))
        assert (row["parent_member"], row["parent_round"]) == (
            ("", "") if o.parent is None else tuple(map(str, o.parent))
        )
        assert row["config.lr"] == repr(o.config["lr"])
        assert row["config.epochs"] == str(o.config["epochs"])  # an integer, not 3.0
        assert row["config.augmentation"] == str(o.config["augmentation"])
        assert (
            row["config.momentum"] == repr(o.config["momentum"])
            if "momentum" in o.config
            else row["config.momentum"] == ""
        )
        assert row["config.gain"] == "7"
        assert row["status"] == o.status
        assert json.loads(row["metrics.names"]) == ["a", "b"]
    assert {row["config.momentum"] == "" for row in rows} == {True, False}
    assert {row["metrics.late"] for row in rows} == {"", "true"}


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_winning_lineage_and_the_stage_of_each_are_marked(mode: Any, tmp_path: Path) -> None:
    run(tmp_path)
    with Store.open(tmp_path) as store:
        store.describe(mode=mode)
    history = History.load(tmp_path)
    rows = by_csv(tmp_path)
    winning = [(int(row["member"]), int(row["round"])) for row in rows if row["winning"] == "true"]
    assert sorted(winning) == sorted(o.key for o in history.lineage())
    for row, o in zip(rows, history, strict=True):
        assert int(row["stage"]) == len(history.lineage(o)) - 1


def test_json_has_a_line_for_each_observation_and_types_of_its_own(tmp_path: Path) -> None:
    history = run(tmp_path)
    text = exported(tmp_path, "json").decode()
    rows = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert len(text.splitlines()) == len(rows) + 2
    for row, o in zip(rows, history, strict=True):
        assert set(COLUMNS) < set(row)
        assert row["score"] == (None if o.failed else o.score)
        assert row["steps"] == 2.0
        config = {name.removeprefix("config."): value for name, value in row.items() if name.startswith("config.")}
        assert config == o.config
        assert {name: type(value) for name, value in config.items()} == {k: type(v) for k, v in o.config.items()}
        assert row["metrics.loss.policy"] == o.metrics["loss"]["policy"]
        assert row["metrics.loss.value"] is None


def test_parquet_keeps_integers_floats_and_labels_apart(tmp_path: Path) -> None:
    history = run(tmp_path)
    table = pyarrow.parquet.read_table(io.BytesIO(exported(tmp_path, "parquet")))
    types = {field.name: str(field.type) for field in table.schema}
    assert (
        types["config.lr"]
        == types["score"]
        == types["metrics.loss.policy"]
        == types["fallback"].replace("string", "double")
    )
    assert types["config.epochs"] == types["config.size"] == types["member"] == types["metrics.episodes"] == "int64"
    assert types["config.augmentation"] == types["config.mixed"] == types["fallback"] == "string"
    assert types["config.bias"] == types["winning"] == types["metrics.late"] == "bool"
    for row, o in zip(table.to_pylist(), history, strict=True):
        assert row["score"] == (None if o.failed else o.score)
        assert row["config.lr"] == o.config["lr"]
        assert row["config.momentum"] == o.config.get("momentum")
        assert row["config.augmentation"] == str(o.config["augmentation"])
        assert row["config.mixed"] == str(o.config["mixed"])
        assert math.isnan(row["metrics.loss.value"])


def test_names_of_a_nested_space_are_dotted_and_tuples_are_lists(tmp_path: Path) -> None:
    history = run(tmp_path, told=6, made={"net": {"kernel": [(3, 3), (5, 5)], "depth": (1, 4)}})
    rows = by_csv(tmp_path)
    assert [tuple(json.loads(row["config.net.kernel"])) for row in rows] == [o.config["net"]["kernel"] for o in history]
    assert [int(row["config.net.depth"]) for row in rows] == [o.config["net"]["depth"] for o in history]


def test_what_deciding_took_and_why_it_fell_back_is_there(tmp_path: Path) -> None:
    decision = {"fallback": "too few rows"}
    observation = Observation(0, 0, {"lr": 0.5}, score=1.0, decision=decision)
    decided = Decision(Assignment(0, 0, {"lr": 0.5}, decision=decision), known=0, seconds=0.25)
    with Store.create(tmp_path, Space({"lr": (0.0, 1.0)}), {"size": 1, "rounds": 1, "mode": "max"}) as store:
        store.write(observations=[observation], decisions=[decided])
    [row] = by_csv(tmp_path)
    assert (row["decision_seconds"], row["fallback"], row["seconds"]) == ("0.25", "too few rows", "")


def test_integers_that_no_column_of_integers_holds_are_text(tmp_path: Path) -> None:
    population = Population({"lr": (0.0, 1.0)}, PBT(), size=1, rounds=1)
    population.tell(population.ask()[0], 1.0, metrics={"seed": 2**64})
    population.history.save(tmp_path)
    table = pyarrow.parquet.read_table(io.BytesIO(exported(tmp_path, "parquet")))
    assert table["metrics.seed"].to_pylist() == [str(2**64)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_without_observations_gives_a_table_without_rows(kind: Kind, tmp_path: Path) -> None:
    run(tmp_path, told=0)
    content = exported(tmp_path, kind)
    match kind:
        case "csv":
            assert content.decode().count("\n") == 1
        case "json":
            assert json.loads(content) == []
        case "parquet":
            table = pyarrow.parquet.read_table(io.BytesIO(content))
            assert (table.num_rows, str(table.schema.field("config.epochs").type)) == (0, "int64")


def test_an_export_is_of_one_moment_also_if_the_run_goes_on(tmp_path: Path) -> None:
    history = run(tmp_path, told=12)

    class Growing(io.BytesIO):
        """Lets the run go on while it is written."""

        grown = False

        def write(self, content: Any) -> int:
            if not self.grown:
                self.grown = True
                population = Population(space(), PBT(), size=6, rounds=10, history=history)
                for assignment in population.ask():
                    population.tell(assignment, 1.0)
                population.history.save(tmp_path)
            return super().write(content)

    file = Growing()
    assert export(tmp_path, "csv", file) == 12
    assert file.getvalue().decode().count("\n") == 1 + 12
    assert len(History.load(tmp_path)) == 18


def test_parquet_without_its_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, told=6)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"Parquet needs pyarrow; pip install 'popbandits\[report\]'"):
        export(tmp_path, "parquet", io.BytesIO())


def test_there_is_nothing_to_export_where_there_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="holds no run"):
        export(tmp_path, "csv", io.BytesIO())


FORMULAS = ("=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "=cmd|' /C calc'!A0", "\x1b]0;owned\x07", "\r=2")


def test_a_spreadsheet_computes_nothing_that_a_record_says(tmp_path: Path) -> None:
    about = {"mode": "max", "size": 1, "rounds": None}
    labels = [*FORMULAS, "-1", "plain"]
    with Store.create(tmp_path, Space({"label": labels}), about) as store:
        store.extend(
            Observation(0, i, {"label": label}, score=-1.0, metrics={"=name": label, "loss": -0.5})
            for i, label in enumerate(labels)
        )
    file = io.BytesIO()
    export(tmp_path, "csv", file)
    written = file.getvalue().decode()
    assert not {"\x1b", "\x07", "\r"} & set(written)
    head, *rows = csv.reader(io.StringIO(written))
    assert "metrics.=name" in head
    table = [dict(zip(head, row, strict=True)) for row in rows]
    for name in ("config.label", "metrics.=name"):
        cells = [row[name] for row in table]
        assert all(cell.strip()[0] not in "=+-@" for cell in cells[: len(FORMULAS)])
        assert cells[0] == "'=1+1"
        assert cells[-2:] == ["-1", "plain"]
    assert table[0]["score"] == "-1.0"
    assert table[0]["metrics.loss"] == "-0.5"
