"""Results of the synthetic experiment, in memory and in a folder."""

import csv
import json
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from popbandits.basics.typing import FloatArray
from popbandits.errors import HistoryError
from popbandits.methods import Explore

NUMBERS, CURVES = "results.json", "curves.csv"

Curve = Literal["mean", "best"]
"""Cumulative regret: of the mean over members, or along the lineage that ends with the best score."""
Start = Literal["same", "any"]
"""Start of a floor: the first configurations of the runs it belongs to, or uniform draws."""


@dataclass(frozen=True)
class Run:
    """The result of one run."""

    method: str
    size: int
    seed: int
    mean: tuple[float, ...]
    best: tuple[float, ...]
    fallbacks: int
    """Number of configurations that were sampled because no model could be fitted."""
    seconds: float = field(compare=False)
    """Seconds spent deciding; the task itself takes no time."""


@dataclass(frozen=True)
class Floor:
    """The average result of a perfect explorer, which knows the optimum from the second round on."""

    explore: Explore
    start: Start
    size: int
    mean: tuple[float, ...]
    best: tuple[float, ...]


@dataclass(frozen=True)
class Results:
    """Every run of an experiment, and the floors under them."""

    runs: tuple[Run, ...]
    floors: tuple[Floor, ...]
    arguments: Mapping[str, Any] = field(compare=False)
    """Arguments of the experiment."""
    made: Mapping[str, Any] = field(compare=False)
    """Date, duration and versions (see `provenance`)."""

    @cached_property
    def _groups(self) -> dict[tuple[str, int], list[Run]]:
        groups: dict[tuple[str, int], list[Run]] = {}
        for run in self.runs:
            groups.setdefault((run.method, run.size), []).append(run)
        return groups

    @property
    def methods(self) -> list[str]:
        """Names of the methods, in the order of the runs."""
        return list(dict.fromkeys(method for method, _ in self._groups))

    @property
    def sizes(self) -> list[int]:
        """Population sizes, in the order of the runs."""
        return list(dict.fromkeys(size for _, size in self._groups))

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return len({run.seed for run in self.runs})

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.runs[0].mean)

    def of(self, method: str, size: int) -> list[Run]:
        """Return the runs of a method with populations of `size`, by seed."""
        return self._groups[method, size]

    def curves(self, method: str, size: int, what: Curve) -> FloatArray:
        """Return the cumulative regret, (seeds, rounds)."""
        return np.array([getattr(run, what) for run in self.of(method, size)], dtype=np.float64)

    def save(self, directory: str | Path) -> list[Path]:
        """Write the raw numbers as JSON, and the curves also as CSV."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        about = {"experiment": "synthetic", "made": self.made, "arguments": self.arguments}
        parts = [f'"{key}": {json.dumps(value)}' for key, value in about.items()]
        parts += [f'"{key}": {_rows(map(asdict, rows))}' for key, rows in self._rows().items()]
        (folder / NUMBERS).write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")
        with open(folder / CURVES, "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(("method", "size", "seed", "round", "mean", "best"))
            for run in self.runs:
                for t, (mean, best) in enumerate(zip(run.mean, run.best, strict=True)):
                    table.writerow((run.method, run.size, run.seed, t, mean, best))
        return [folder / NUMBERS, folder / CURVES]

    def _rows(self) -> dict[str, tuple[Any, ...]]:
        return {"floors": self.floors, "runs": self.runs}

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read the results that `save` wrote."""
        path = Path(directory) / NUMBERS
        try:
            content = json.loads(path.read_text("utf-8"))
            runs = tuple(Run(**_tuples(row)) for row in content["runs"])
            floors = tuple(Floor(**_tuples(row)) for row in content["floors"])
            return cls(runs, floors, content["arguments"], content["made"])
        except FileNotFoundError:
            raise HistoryError(f"no results in {directory}: it has no {NUMBERS}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise HistoryError(f"{path} does not hold results of this experiment: {error!r}") from error


def provenance(seconds: float, workers: int) -> dict[str, Any]:
    """Return the date, duration, number of workers, platform and versions."""
    popbandits = import_module("popbandits").__version__  # works without an installed distribution
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 3),
        "workers": workers,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"popbandits": popbandits} | {name: version(name) for name in ("numpy", "scipy", "ConfigSpace")},
    }


def _rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """Format rows as JSON, one line each, to be easy to read and compare."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]"


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
