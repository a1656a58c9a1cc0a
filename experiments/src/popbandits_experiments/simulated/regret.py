"""Regret of every explorer on simulated problems, as ratios to PBT's.

    python -m popbandits_experiments.simulated.regret

This is a smoke test: methods are chosen by real training (docs/real_training.md).

There are two groups. Where the score is a level, the measure is the shortfall of the member with the best last score:
its true skill below that of the best schedule. Where it is a running total, it is the mean regret of all members.
Seeds are paired: with one seed, all methods have the same problem and the same noise. Intervals are 95%
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

from popbandits_experiments.methods import ALL_METHODS as METHODS
from popbandits_experiments.simulated.problems import PROBLEMS
from popbandits_experiments.simulated.simulate import PERFECT, VARIANTS, RunResult, run

BASELINE = "pbt"
RESAMPLES = 10_000
SMALLEST = 0.01  # lower bound of ratios in a geometric mean, which one zero would make 0

GROUPS = {
    "levels": [name for name, problem in PROBLEMS.items() if problem.level],
    "totals": [name for name, problem in PROBLEMS.items() if not problem.level],
    "all": list(PROBLEMS),
}
USUAL = [*GROUPS["levels"], "sincos", "drift", "conditional", "interaction", "trap"]

FloatArray = npt.NDArray[np.float64]


def compete(arguments: argparse.Namespace) -> list[RunResult]:
    """Run every method x problem x seed over all cores, with the same results and order as in one process."""
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
    """Return the ratio of mean regrets, then its bootstrap draws over paired seeds: (1 + RESAMPLES,)."""
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
    """Return one field of each run of a method on a problem, in order of seed."""
    chosen = [r for r in results if (r.problem, r.method) == (problem, method)]
    return np.array([getattr(r, field) for r in sorted(chosen, key=lambda r: r.seed)], dtype=np.float64)


def judged(problem: str) -> str:
    """Return the field of a run that ratios are computed from."""
    return "best" if PROBLEMS[problem].level else "regret"


def ratios(results: Sequence[RunResult]) -> dict[tuple[str, str], FloatArray]:
    """Return the draws of each (problem, method); the methods of one problem share their resamples of seeds."""
    draws = {}
    for index, problem in enumerate(dict.fromkeys(r.problem for r in results)):
        field = judged(problem)
        baseline = column(results, problem, BASELINE, field)
        for method in dict.fromkeys(r.method for r in results):
            regret = column(results, problem, method, field)
            if method != BASELINE and len(baseline) == len(regret):
                draws[problem, method] = ratio_draws(regret, baseline, np.random.default_rng(index))
    return draws


def by_problem(results: Sequence[RunResult], draws: dict[tuple[str, str], FloatArray], group: str) -> Table:
    """Build a table of mean regret ± standard error of members and winning lineage, and the ratio to PBT's."""
    first = results[0]
    seeds = len({r.seed for r in results})
    title = {"levels": "Levels: shortfall", "totals": "Running totals: regret"}[group]
    table = Table(title=f"{title}; {first.size} members, {first.rounds} rounds, {seeds} paired seeds")
    for name in ("problem", "method"):
        table.add_column(name)
    for name in ("mean over members", "winning lineage", f"ratio to {BASELINE} \\[95%]"):
        table.add_column(name, justify="right", no_wrap=True)
    methods = list(dict.fromkeys(r.method for r in results))
    for problem in (name for name in GROUPS[group] if any(r.problem == name for r in results)):
        kind = PROBLEMS[problem]
        note = " (final)" if kind.episodic and not kind.level else "" if kind.learnable else " (control)"
        for method in methods:
            numbers = [show_mean(column(results, problem, method, field)) for field in ("regret", "best")]
            ratio = show_ratio(draws[problem, method]) if (problem, method) in draws else ""
            label = problem + note if method == methods[0] else ""
            table.add_row(label, method, *numbers, ratio, end_section=method == methods[-1])
    return table


def counts(problem: str) -> bool:
    """Return whether a problem is part of its group's mean; sincos, with extreme ratios, is reported separately."""
    return PROBLEMS[problem].learnable and problem != "sincos"


def overall(results: Sequence[RunResult], draws: dict[tuple[str, str], FloatArray]) -> Table:
    """Build a table of geometric means over each group, problems where a method is not ahead, and its cost."""
    table = Table(title="Geometric means over the problems where something can be learnt, sincos apart")
    table.add_column("method", no_wrap=True)
    for group in ("levels", "totals"):
        table.add_column(f"{group}, ratio \\[95%]", justify="right", no_wrap=True)
    table.add_column(f"not surely ahead of {BASELINE} on")
    table.add_column("decisions, s a run", justify="right")
    table.add_column("fallbacks a run", justify="right")
    for method in dict.fromkeys(r.method for r in results):
        own = {p: d for (p, m), d in draws.items() if m == method and counts(p)}
        means = [geometric_mean([d for p, d in own.items() if p in GROUPS[g]]) for g in ("levels", "totals")]
        behind = [p for p, d in own.items() if interval(d)[1] >= 1]
        shown = "all" if own and len(behind) == len(own) else ", ".join(behind)
        runs = [r for r in results if r.method == method]
        seconds, fallbacks = np.mean([(r.seconds, r.fallbacks) for r in runs], axis=0)
        table.add_row(method, *means, shown, f"{seconds:.3g}", f"{fallbacks:.3g}")
    return table


def geometric_mean(draws: Sequence[FloatArray]) -> str:
    """Format the geometric mean of ratios with its interval; empty if there are none."""
    return show_ratio(np.exp(np.mean(np.log(np.maximum(draws, SMALLEST)), axis=0))) if draws else ""


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m popbandits_experiments.simulated.regret", description=__doc__)
    methods = [name for name, method in METHODS.items() if method.explore == "replaced"]
    names = [*methods, PERFECT]
    known = [name + tail for name in names for tail in ("", *(f"/{variant}" for variant in VARIANTS))]
    usual = [*methods, "pb2-fuse/all", "pb2-fuse/half", PERFECT]
    parser.add_argument("--methods", nargs="+", choices=known, default=usual, metavar="METHOD")
    parser.add_argument(
        "--problems",
        nargs="+",
        choices=[*GROUPS, *PROBLEMS],
        default=USUAL,
        metavar="PROBLEM",
        help="problems, or groups of them: levels, totals, all (the levels and five totals)",
    )
    parser.add_argument("--size", type=int, default=4, help="members of the population")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=20, help="seeds 0 to N - 1")
    parser.add_argument("--explore", choices=("replaced", "all"), default="replaced")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="write the raw numbers here, as JSON")
    parser.add_argument("--read", type=Path, help="print the table of such a file instead of running")
    arguments = parser.parse_args(argv)
    named = {name for chosen in arguments.problems for name in GROUPS.get(chosen, [chosen])}
    arguments.problems = [name for name in PROBLEMS if name in named]
    return arguments


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
    console = console if console.is_terminal else Console(width=140)
    draws = ratios(results)
    for group in ("levels", "totals"):
        if any(r.problem in GROUPS[group] for r in results):
            console.print(by_problem(results, draws, group))
    console.print(overall(results, draws))


if __name__ == "__main__":
    main()
