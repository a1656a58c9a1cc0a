"""Results of the synthetic experiment."""

import json
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from popbandits.basics.typing import FloatArray
from popbandits.methods import Explore

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

    @property
    def methods(self) -> list[str]:
        """Names of the methods, in the order of the runs."""
        return list(dict.fromkeys(run.method for run in self.runs))

    @property
    def sizes(self) -> list[int]:
        """Population sizes, in the order of the runs."""
        return list(dict.fromkeys(run.size for run in self.runs))

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
        return [run for run in self.runs if (run.method, run.size) == (method, size)]

    def curves(self, method: str, size: int, what: Curve) -> FloatArray:
        """Return the cumulative regret, (seeds, rounds)."""
        return np.array([getattr(run, what) for run in self.of(method, size)], dtype=np.float64)

    def save(self, directory: Path) -> Path:
        """Write all of it as JSON."""
        path = directory / "results.json"
        path.write_text(json.dumps({"experiment": "synthetic", **asdict(self)}), "utf-8")
        return path


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
