"""Cost of the run loop per assignment: all time that is neither the agent's nor the explorer's.

    python -m popbandits_experiments.speed.overhead [--rounds 200]

The agent does nothing and saves one small file. Its own calls and the decisions are timed and subtracted. The rest
is asking, telling, commits of the record, checksums, renames and removals, and transfers to and from the worker.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from popbandits import PBT, Outcome, tune
from popbandits.basics.settings import ENGINES
from popbandits.storage.store import Store
from popbandits.views.view import View

SPACE = {"lr": (0.0, 1.0), "clip": (0.0, 1.0), "augmentation": ["crop", "flip", "rotate"]}


class Idle:
    """An agent that does nothing, and reports how long its own calls took."""

    def __init__(self, seed: int):
        self.seconds = 0.0

    def train(self, config: dict[str, Any]) -> Any:
        spent, self.seconds = self.seconds, 0.0
        return Outcome(config["lr"], metrics={"spent": spent})

    def save(self, directory: Path) -> None:
        start = time.perf_counter()
        (directory / "weights").write_bytes(bytes(1000))
        self.seconds += time.perf_counter() - start

    def load(self, directory: Path) -> None:
        start = time.perf_counter()
        (directory / "weights").read_bytes()
        self.seconds += time.perf_counter() - start


class Idles:
    """A batch of `Idle` agents."""

    def __init__(self, seeds: list[int]):
        self.members = [Idle(seed) for seed in seeds]

    def train(self, configs: list[dict[str, Any]]) -> list[Any]:
        return [member.train(config) for member, config in zip(self.members, configs, strict=True)]

    def copy(self, sources: list[int]) -> None:
        """Do nothing: all members are the same."""

    def reset(self, member: int, seed: int) -> None:
        """Do nothing: members are always new."""

    def save(self, member: int, directory: Path) -> None:
        self.members[member].save(directory)

    def load(self, member: int, directory: Path) -> None:
        self.members[member].load(directory)


def measure(engine: Any, population: int, rounds: int) -> tuple[float, float, float]:
    """Return milliseconds per assignment: overhead, the agent's own, the decisions'."""
    with TemporaryDirectory() as folder:
        start: list[float] = []

        class Clock(View):
            def asked(self, decisions: Any) -> None:
                start.append(time.perf_counter())

        agent: Any = Idles if engine == "batched" else Idle
        result = tune(
            agent, SPACE, PBT(), population=population, rounds=rounds, engine=engine, directory=folder, progress=Clock()
        )
        # From the second round on: workers have started by then.
        total = time.perf_counter() - start[1]
        count = population * (rounds - 1)
        spent = sum(o.metrics["spent"] for o in result.history)
        with Store.open(folder, readonly=True) as store:
            deciding = sum(decision.seconds or 0.0 for decision in store.decisions())
    # Where several members train at a time, an agent's calls overlap with the rest: nothing is subtracted.
    alone = spent if engine in ("in-process", "batched") else 0.0
    return 1e3 * (total - alone - deciding) / count, 1e3 * spent / count, 1e3 * deciding / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    print("| engine | members | overhead | the agent's own | decisions |\n|---|---|---|---|---|")
    for engine in ENGINES:
        if engine == "slurm":
            continue  # A job starts a process, or two, for every assignment.
        for population in (4, 32):
            overhead, agent, deciding = measure(engine, population, arguments.rounds)
            print(f"| {engine} | {population} | {overhead:.2f} ms | {agent:.2f} ms | {deciding:.2f} ms |", flush=True)


if __name__ == "__main__":
    main()
