"""Regret of every explorer on every problem, as ratios to PBT's: `python -m benchmarks.regret`.

Seeds are paired: with one seed all methods meet the same problem and the same noise. Intervals are 95%
bootstrap intervals over seeds, drawn for the method and for PBT together.
"""

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")})  # before numpy

import argparse
import json
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks.problems import PROBLEMS
from benchmarks.simulate import PERFECT, VARIANTS, RunResult, run
from popbandits.methods import METHODS

BASELINE = "pbt"
RESAMPLES = 10_000

FloatArray = npt.NDArray[np.float64]


def compete(arguments: argparse.Namespace) -> list[RunResult]:
    """Every method x problem x seed, over all cores; the same results in the same order as in one process."""
    jobs = [
        (problem, method, seed)
        for seed in range(arguments.seeds)
        for problem in arguments.problems
        for method in arguments.methods
    ]
    settings = {"size": arguments.size, "rounds": arguments.rounds, "explore": arguments.explore}
    columns = (TextColumn("regret"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    results = {}
    with (
        Progress(*columns, console=Console(stderr=True)) as progress,
        ProcessPoolExecutor(arguments.workers, multiprocessing.get_context("spawn")) as pool,
    ):
        task = progress.add_task("", total=len(jobs))
        futures = {pool.submit(run, p, m, seed=s, **settings): (p, m, s) for p, m, s in jobs}
        try:
            for future in as_completed(futures):
                job = futures[future]
                results[job] = future.result()
                progress.advance(task)
        except Exception as error:
            raise RuntimeError("{1} on {0}, seed {2}, failed".format(*job)) from error
        finally:
            pool.shutdown(cancel_futures=True)
    return [results[job] for job in jobs]


def ratio_draws(method: FloatArray, baseline: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The ratio of mean regrets, then its bootstrap draws over paired seeds: (1 + RESAMPLES,)."""
    picks = rng.integers(len(method), size=(RESAMPLES, len(method)))
    means = [np.append(values.mean(), values[picks].mean(axis=1)) for values in (method, baseline)]
    ratio: FloatArray = means[0] / means[1]
    return ratio


def interval(draws: FloatArray) -> tuple[float, float]:
    low, high = np.quantile(draws[1:], (0.025, 0.975))
    return float(low), float(high)


def show_ratio(draws: FloatArray) -> str:
    return "{:.2f} \\[{:.2f}, {:.2f}]".format(draws[0], *interval(draws))


def show_mean(values: FloatArray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.3g} ± {error:.2g}"


def column(results: Sequence[RunResult], problem: str, method: str, field: str) -> FloatArray:
    """One number of each run of a method on a problem, in order of seed."""
    chosen = [r for r in results if (r.problem, r.method) == (problem, method)]
    return np.array([getattr(r, field) for r in sorted(chosen, key=lambda r: r.seed)], dtype=np.float64)


def ratios(results: Sequence[RunResult]) -> dict[tuple[str, str], FloatArray]:
    """The draws of each (problem, method); the methods of one problem share their resamples of seeds."""
    draws = {}
    for index, problem in enumerate(dict.fromkeys(r.problem for r in results)):
        baseline = column(results, problem, BASELINE, "regret")
        for method in dict.fromkeys(r.method for r in results):
            regret = column(results, problem, method, "regret")
            if method != BASELINE and len(baseline) == len(regret):
                draws[problem, method] = ratio_draws(regret, baseline, np.random.default_rng(index))
    return draws


def by_problem(results: Sequence[RunResult], draws: dict[tuple[str, str], FloatArray]) -> Table:
    """Mean regret +- standard error of the members and of the winning lineage, and the ratio to PBT's."""
    first = results[0]
    seeds = len({r.seed for r in results})
    table = Table(title=f"Regret: {first.size} members, {first.rounds} rounds, {seeds} paired seeds")
    for name in ("problem", "method"):
        table.add_column(name)
    for name in ("mean over members", "winning lineage", f"ratio to {BASELINE} \\[95%]"):
        table.add_column(name, justify="right", no_wrap=True)
    methods = list(dict.fromkeys(r.method for r in results))
    for problem in dict.fromkeys(r.problem for r in results):
        kind = PROBLEMS[problem]
        note = " (final)" if kind.episodic else "" if kind.learnable else " (control)"
        for method in methods:
            numbers = [show_mean(column(results, problem, method, field)) for field in ("regret", "best")]
            ratio = show_ratio(draws[problem, method]) if (problem, method) in draws else ""
            label = problem + note if method == methods[0] else ""
            table.add_row(label, method, *numbers, ratio, end_section=method == methods[-1])
    return table


def counts(problem: str) -> bool:
    """Whether a problem enters the overall mean: sincos, where ratios are extreme, is reported apart."""
    return PROBLEMS[problem].learnable and problem != "sincos"


def overall(results: Sequence[RunResult], draws: dict[tuple[str, str], FloatArray]) -> Table:
    """Geometric mean of the ratios over the suite, where a method is not ahead, and its cost."""
    table = Table(title="Geometric mean over the problems where something can be learnt, sincos apart")
    table.add_column("method", no_wrap=True)
    table.add_column(f"ratio to {BASELINE} \\[95%]", justify="right", no_wrap=True)
    table.add_column(f"not surely ahead of {BASELINE} on")
    table.add_column("decisions, s a run", justify="right")
    table.add_column("fallbacks a run", justify="right")
    for method in dict.fromkeys(r.method for r in results):
        own = {p: d for (p, m), d in draws.items() if m == method and counts(p)}
        mean = show_ratio(np.exp(np.mean([np.log(d) for d in own.values()], axis=0))) if own else ""
        behind = [p for p, d in own.items() if interval(d)[1] >= 1]
        shown = "all" if own and len(behind) == len(own) else ", ".join(behind)
        runs = [r for r in results if r.method == method]
        seconds, fallbacks = np.mean([(r.seconds, r.fallbacks) for r in runs], axis=0)
        table.add_row(method, mean, shown, f"{seconds:.3g}", f"{fallbacks:.3g}")
    return table


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regret", description=__doc__)
    methods = [name for name, method in METHODS.items() if method.explore == "replaced"]
    names = [*methods, PERFECT]
    known = [name + tail for name in names for tail in ("", *(f"/{variant}" for variant in VARIANTS))]
    usual = [*methods, "pb2-fuse/all", "pb2-fuse/half", PERFECT]
    parser.add_argument("--methods", nargs="+", choices=known, default=usual, metavar="METHOD")
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--size", type=int, default=4, help="members of the population")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=20, help="seeds 0 to N - 1")
    parser.add_argument("--explore", choices=("replaced", "all"), default="replaced")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="write the raw numbers here, as JSON")
    parser.add_argument("--read", type=Path, help="print the table of such a file instead of running")
    return parser.parse_args(argv)


def main() -> None:
    arguments = parse()
    if arguments.read:
        results = [RunResult(**row) for row in json.loads(arguments.read.read_text())]
    else:
        results = compete(arguments)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text("[\n" + ",\n".join(json.dumps(asdict(r)) for r in results) + "\n]\n")
    console = Console()
    console = console if console.is_terminal else Console(width=110)
    draws = ratios(results)
    console.print(by_problem(results, draws))
    console.print(overall(results, draws))


if __name__ == "__main__":
    main()
