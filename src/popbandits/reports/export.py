"""Every observation of a run as a table, for other programs: CSV, JSON or Parquet.

| column | meaning |
|---|---|
| member, round | the interval of training |
| parent_member, parent_round | the interval whose checkpoint it loaded; empty for a fresh start |
| stage | number of intervals that its weights were trained before |
| winning | whether what the run hands over descends from it |
| status | completed, failed or lost |
| score_before, score, change | the parent's score, its own, the difference; empty where there is none |
| steps, seconds | the cost of the interval |
| decision_seconds, fallback | seconds that exploring took; why the explorer used no model, if it used none |
| config.NAME | a hyperparameter; empty where it is inactive |
| applied.NAME | what a hyperparameter with a schedule was in this interval |
| metrics.NAME | another metric that the agent reported |

In CSV, text that a spreadsheet would compute begins with an apostrophe, and control characters are escaped.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal

from popbandits.basics.extras import require
from popbandits.errors import HistoryError
from popbandits.history import Key
from popbandits.history.frame import COMMON_COLUMNS, cell, flat, table_row, text
from popbandits.space import Space
from popbandits.storage import Store
from popbandits.storage.handed_over import handed_over
from popbandits.storage.store import reading

Kind = Literal["csv", "json", "parquet"]
KINDS: tuple[Kind, ...] = ("csv", "json", "parquet")

DECIDED: dict[str, type] = {"decision_seconds": float, "fallback": str}
COLUMNS = {name: kind for name, kind in COMMON_COLUMNS.items() if name not in DECIDED} | DECIDED

Row = dict[str, Any]
"""Values by column. Missing ones are empty; None in a `config.` column is a label that is None."""


def export(directory: str | Path, kind: Kind, file: IO[bytes]) -> int:
    """Write the observations of a run, and return their number."""
    if kind == "parquet":
        require("pyarrow", extra="report", user="Parquet")
    with reading(directory) as store:
        store.begin()  # One snapshot, even if the run continues meanwhile.
        stages, metrics = _survey(store)
        columns = COLUMNS | _config_types(store.space) | dict.fromkeys(sorted(metrics), object)
        write = {"csv": _write_csv, "json": _write_json, "parquet": _write_parquet}[kind]
        write(columns, _rows(store, stages), file)
        return len(store)


def _survey(store: Store) -> tuple[dict[Key | None, int], set[str]]:
    """Return the stage of each interval, and the columns of the agents' metrics."""
    stages: dict[Key | None, int] = {None: -1}
    metrics: set[str] = set()
    for o in store.observations():
        if o.parent not in stages:
            raise HistoryError(f"a parent comes first, got {o.key} with {o.parent} unseen")
        stages[o.key] = stages[o.parent] + 1
        metrics.update(flat(o.metrics, "metrics."))
    return stages, metrics


def _rows(store: Store, stages: Mapping[Key | None, int]) -> Iterator[Row]:
    """Yield a row for each observation, in order."""
    choice, deciding = handed_over(store), store.deciding()
    winning = set() if choice is None else {(m, r) for m, r, _ in store.lineage(choice.observation.key)}
    for o in store.observations():
        row = table_row(o, store.space, stages[o.key], o.key in winning)
        row["decision_seconds"] = deciding.get(o.key)
        yield {k: v for k, v in row.items() if k not in COLUMNS or (v is not None and v == v)}


def _config_types(space: Space) -> dict[str, type]:
    """Return the type of each hyperparameter's column; object where values differ in type."""
    kinds: dict[str, type] = dict.fromkeys(space.names, object)
    kinds |= {each.name: common(each.labels) for each in (*space.categorical, *space.numerical)}
    kinds |= {each.name: int if each.kind == "integer" else float for each in space.numerical if not each.labels}
    applied = {f"applied.{name}": kinds[name] for name in space.schedules}
    return {f"config.{name}": kind for name, kind in kinds.items()} | applied


def common(values: Iterable[Any]) -> type:
    """Return the type among bool, int, float and str that holds all values; object if none does.

    >>> common([1, 2.5]), common(["crop", "flip"]), common(["crop", None]), common([True, 1])
    (<class 'float'>, <class 'str'>, <class 'object'>, <class 'object'>)
    """
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return float
    return kinds.pop() if len(kinds) == 1 and kinds <= {bool, int, float, str} else object


# Formats


def _write_csv(columns: Mapping[str, type], rows: Iterable[Row], file: IO[bytes]) -> None:
    lines = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(map(cell, columns))
    for row in rows:
        writer.writerow([cell(row[name]) if name in row else "" for name in columns])
    lines.detach()


def _write_json(columns: Mapping[str, type], rows: Iterable[Row], file: IO[bytes]) -> None:
    """Write a list with a line for each observation. JSON has no NaN: it is written as null."""
    between = b"[\n"
    for row in rows:
        whole = dict.fromkeys(COLUMNS) | row
        file.write(between + json.dumps(finite(whole), ensure_ascii=False).encode("utf-8", "backslashreplace"))
        between = b",\n"
    file.write(b"\n]\n" if between == b",\n" else b"[]\n")


def finite(value: Any) -> Any:
    """Replace every number that is not finite by None: JSON has no NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def _write_parquet(columns: Mapping[str, type], rows: Iterable[Row], file: IO[bytes]) -> None:
    import pyarrow
    from pyarrow import parquet

    kept = list(rows)
    types = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    arrays = {}
    for name, kind in columns.items():
        found = [row[name] for row in kept if name in row]
        held = types.get(common(found) if kind is object else kind, pyarrow.string())
        if held == pyarrow.int64() and any(abs(value) >= 2**63 for value in found):
            held = pyarrow.string()
        values = iter(map(text, found) if held == pyarrow.string() else found)
        arrays[text(name)] = pyarrow.array([next(values) if name in row else None for row in kept], held)
    parquet.write_table(pyarrow.table(arrays), file)
