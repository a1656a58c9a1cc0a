"""Cost of one decision compared to peers, and the likelihood each fit reaches.

    python -m popbandits_experiments.speed.decision_cost

The space has 4 floats and a categorical of 8 labels. A decision is timed as in a run: the history ends with
decisions of the same method, whose fits are the warm start of the next, and cold starts return whenever a tenth of the
rows is new. So the median is over the decisions of a part of a run, and the slowest one has cold starts.

- "default" is the method with its default window of at most 300 observations.
- "all rows" is `window=None`: the same data as for the peers.
- "LAPACK" is one Cholesky factorisation and inverse of a matrix with as many rows, which every exact fit needs.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import lapack

from popbandits import History, Observation, PB2Fuse, PB2Mix, Space
from popbandits.explorers import Explorer
from popbandits.models.gp import Likelihood, Structure, fit, starts
from popbandits.models.kernel import Embedding
from popbandits_experiments.simulated.data import MEMBERS, Data, make_history

SIZES = (50, 200, 500, 1_000, 100_000, 1_000_000)
EXACT = 1_000
"""Number of rows up to which all methods are timed on all rows."""
SPACE = {**{f"x{i}": (0.0, 1.0) for i in range(4)}, "h": [f"label {i}" for i in range(8)]}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    who: str
    observations: int
    seconds: float
    slowest: float
    decisions: int


def stretch(data: Data, length: int) -> Iterator[tuple[History, list[Observation], list[dict[str, object]]]]:
    """Yield the observations before the last `length` rounds of a run, then those rounds one by one."""
    keys, after = list(SPACE), data.after
    observations = [
        Observation(
            member=int(data.member[i]),
            round=int(data.round[i]),
            config=dict(zip(keys, [*data.x[i].tolist(), SPACE["h"][data.h[i]]], strict=True)),
            parent=None if data.round[i] == 0 else (int(data.member[i]), int(data.round[i]) - 1),
            score_before=float(data.before[i]),
            score=float(after[i]),
        )
        for i in range(len(data) // MEMBERS * MEMBERS)
    ]
    start = max(MEMBERS, len(observations) - length * MEMBERS)
    history = History(Space(SPACE), observations[:start], size=MEMBERS, rounds=max(50, len(data) // MEMBERS + 1))
    for at in range(start, len(observations) + 1, MEMBERS):
        coming = observations[at : at + MEMBERS]
        yield history, coming, [o.config for o in observations[at - MEMBERS + 1 : at]]


def decisions(explorer: Explorer, data: Data, length: int) -> list[float]:
    """Return the seconds of each decision in the last rounds of a run; record each as a population would."""
    seconds = []
    for history, coming, pending in stretch(data, length):
        rng = np.random.default_rng([len(history)])
        began = time.perf_counter()
        [proposal] = explorer.explore_round(history.space, history, pending, [history[-MEMBERS]], rng)
        seconds.append(time.perf_counter() - began)
        for place, observation in enumerate(coming):
            history.append(replace(observation, decision=proposal.decision) if place == 0 else observation)
    return seconds


def lapack_floor(n: int, repeats: int = 7) -> float:
    """Return the seconds of one potrf and potri of n rows."""
    x = np.random.default_rng(0).random((n, 4))
    matrix = np.exp(-((x[:, None] - x) ** 2).sum(axis=-1)) + 0.1 * np.eye(n)
    seconds = []
    for _ in range(repeats):
        work = np.asfortranarray(matrix)
        began = time.perf_counter()
        lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1)
        lapack.dpotri(work, lower=1, overwrite_c=1)
        seconds.append(time.perf_counter() - began)
    return median(seconds)


def likelihood_reached(data: Data) -> tuple[float, float]:
    """Return the log marginal likelihood of our fit from cold starts, with the methods' prior and without."""
    structure = Structure(Embedding(np.zeros(4, dtype=np.bool_)))
    inputs = structure.inputs(data.x, data.h[:, None], data.round.astype(float))
    likelihood = Likelihood(structure, inputs, data.standardised)
    best = [fit(likelihood, starts(structure), use_prior=prior).theta for prior in (True, False)]
    return likelihood(best[0])[0], likelihood(best[1])[0]


def peers(options: argparse.Namespace) -> dict[str, Callable[[Data], object]]:
    """Return the requested peers; their packages are in the extra `bench`."""
    chosen: dict[str, Callable[[Data], object]] = {}
    if "botorch" in options.peers:
        from popbandits_experiments.peers import botorch_mix

        chosen["BoTorch, the same model"] = botorch_mix.decide
    if "ray" in options.peers:
        from popbandits_experiments.peers import ray_pb2

        chosen["Ray Tune PB2 (no categories)"] = ray_pb2.decide
    return chosen


def main() -> None:
    """Time all methods and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="observations (%(default)s)")
    parser.add_argument("--peers", nargs="*", choices=["ray", "botorch"], default=["ray", "botorch"])
    parser.add_argument("--peer-seeds", type=int, default=3, help="histories a peer is timed on below N = 500, 1 above")
    parser.add_argument("--rounds", type=int, default=30, help="our decisions at each size (%(default)s)")
    parser.add_argument("-o", "--out", type=Path, default=Path("runs/decision_cost.json"))
    options = parser.parse_args()
    console = Console()
    rows: list[Row] = []
    fits: list[dict[str, object]] = []
    floors: dict[int, float] = {}
    others = peers(options)
    for decide in others.values():
        decide(make_history(50, seed=999))  # The first call includes imports and thread pools.
    for n in options.sizes:
        data = make_history(n, seed=0)
        ours: dict[str, Explorer] = {"PB2-Mix": PB2Mix(), "PB2-Fuse": PB2Fuse()}
        if n <= EXACT:
            floors[n] = lapack_floor(n)
            ours |= {"PB2-Mix, all rows": PB2Mix(window=None), "PB2-Fuse, all rows": PB2Fuse(window=None)}
        for name, explorer in ours.items():
            seconds = decisions(explorer, data, options.rounds)
            rows.append(Row(name, n, median(seconds), max(seconds), len(seconds)))
        if n > EXACT:
            continue
        mapped, likeliest = likelihood_reached(data)
        reached: dict[str, object] = {
            "observations": n,
            "ours, no prior": f"{likeliest:,.2f}",
            "ours, as the methods fit": f"{mapped:,.2f}",
        }
        for name, decide in others.items():
            results = [decide(make_history(n, seed)) for seed in range(options.peer_seeds if n < 500 else 1)]
            seconds = [result.seconds for result in results]  # type: ignore[attr-defined]
            rows.append(Row(name, n, median(seconds), max(seconds), len(seconds)))
            first: Any = results[0]
            reached[name] = f"{first.log_likelihood:,.2f} ({first.observations} rows)"
        fits.append(reached)
        console.print(f"N = {n} done", style="dim")
    show(console, rows, floors, fits)
    about = {
        "when": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "versions": {name: version(name) for name in ("numpy", "scipy", *options.peers)},
        "arguments": {key: str(value) for key, value in vars(options).items()},
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    content = {"about": about, "rows": [asdict(row) for row in rows], "lapack": floors, "likelihoods": fits}
    options.out.write_text(json.dumps(content, indent=1))
    console.print(f"numbers in {options.out}")


def show(console: Console, rows: list[Row], floors: dict[int, float], fits: list[dict[str, object]]) -> None:
    """Print the tables: seconds per decision with ratios to PB2-Mix on the same rows, and likelihoods."""
    table = Table("who", "N", "median", "slowest", "decisions", "times PB2-Mix", "times LAPACK", title="One decision")
    for row in rows:
        same = [r for r in rows if r.observations == row.observations]
        mine = next(r.seconds for r in same if r.who == "PB2-Mix")
        all_rows = row.observations <= 300 or row.who.endswith("all rows")
        floor = floors.get(row.observations) if all_rows else None
        table.add_row(
            row.who,
            f"{row.observations:,}",
            f"{1e3 * row.seconds:,.1f} ms",
            f"{1e3 * row.slowest:,.1f} ms",
            str(row.decisions),
            f"{row.seconds / mine:,.1f}",
            "" if floor is None else f"{row.seconds / floor:,.1f}",
        )
    console.print(table)
    names = list(dict.fromkeys(name for reached in fits for name in reached))
    table = Table(*names, title="Log marginal likelihood reached (nats; Ray's is of another model)")
    for reached in fits:
        table.add_row(*(str(reached.get(name, "")) for name in names))
    console.print(table)


if __name__ == "__main__":
    main()
