"""Cost of one decision compared to peers, and the likelihood each fit reaches.

    python -m popbandits_experiments.speed.decision_cost

The space has 4 floats and a categorical of 8 labels. A decision is timed as in a run: the history ends with
decisions of the same method, whose fits are the warm start of the next, and cold starts return whenever a tenth of the
rows is new. So the median is over the decisions of a part of a run, and the slowest one has cold starts.

- A method has its default window of at most 300 observations; "all rows" is `window=None`: the same data as for the
  peers, and what their factors are against.
- "One Cholesky and inverse" is of a matrix with as many rows, which every exact fit needs.

Peers need the extra `bench`. Torch keeps its own number of threads, so time BoTorch on an idle machine.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import lapack

from popbandits import History, Observation, PB2Fuse, PB2Mix
from popbandits.explorers import Explorer
from popbandits.explorers.surrogate import standardise
from popbandits.models.gp import Likelihood, Structure, fit, starts
from popbandits.models.kernel import Embedding
from popbandits_experiments.speed.made_up import DIMENSIONS, SPACE, made_up_rounds

MEMBERS = 4
SIZES = (50, 200, 500, 1_000, 1_000_000)
EXACT = 1_000
"""Number of rows up to which all rows are used, and peers are timed."""
ROUNDS = 30
"""Number of our decisions that are timed at each size."""
OURS: dict[str, Explorer] = {"PB2-Mix": PB2Mix(), "PB2-Fuse": PB2Fuse()}
ALL_ROWS, BOTORCH, RAY = "PB2-Mix, all rows", "BoTorch, the same model", "Ray Tune's PB2, numbers only"


def play(n: int, seed: int = 0) -> list[Observation]:
    """Return n observations of a made-up run."""
    return list(islice(chain.from_iterable(made_up_rounds(MEMBERS, seed)), n))


def time_decisions(explorer: Explorer, observations: Sequence[Observation], rounds: int = 0) -> list[float]:
    """Return the seconds of the decisions in the last rounds of a run and after it; each is recorded as in a run."""
    whole = len(observations) // MEMBERS
    start = max(1, whole - rounds) * MEMBERS
    history = History(SPACE, observations[:start], size=MEMBERS, rounds=max(50, whole + 1))
    seconds = []
    for end in range(start, len(observations) + 1, MEMBERS):
        pending = [observation.config for observation in observations[end - MEMBERS + 1 : end]]
        rng = np.random.default_rng([end])
        began = time.perf_counter()
        [proposal] = explorer.explore_round(history.space, history, pending, [history[-MEMBERS]], rng)
        seconds.append(time.perf_counter() - began)
        for observation in observations[end : end + MEMBERS]:
            history.append(observation if observation.member else replace(observation, decision=proposal.decision))
    return seconds


def time_lapack(n: int, repeats: int = 7) -> list[float]:
    """Return the seconds of one potrf and potri of n rows."""
    x = np.random.default_rng(0).random((n, DIMENSIONS))
    matrix = np.exp(-((x[:, None] - x) ** 2).sum(axis=-1)) + 0.1 * np.eye(n)
    seconds = []
    for _ in range(repeats):
        work = np.asfortranarray(matrix)
        began = time.perf_counter()
        lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1)
        lapack.dpotri(work, lower=1, overwrite_c=1)
        seconds.append(time.perf_counter() - began)
    return seconds


def time_ray(n: int, seed: int) -> float:
    """Return the seconds of a decision of Ray's PB2; it learns nothing from the first round, so it gets one more."""
    from popbandits_experiments.peers.ray_pb2_explorer import RayPB2

    [seconds] = time_decisions(RayPB2(), play(n + MEMBERS, seed))
    return seconds


def time_botorch(n: int, seed: int) -> tuple[float, float]:
    """Return the seconds of a decision with BoTorch, and the log marginal likelihood of its fit."""
    from popbandits_experiments.peers import botorch_mix

    return botorch_mix.decide(History(SPACE, play(n, seed), size=MEMBERS))


def likelihood_reached(history: History, use_prior: bool) -> float:
    """Return the log marginal likelihood of our fit from cold starts, with the methods' prior or without."""
    rows, structure = history.recent(), Structure(Embedding(np.zeros(DIMENSIONS, dtype=np.bool_)))
    inputs = structure.inputs(rows.points.x, rows.points.h, rows.stage.astype(np.float64))
    likelihood = Likelihood(structure, inputs, standardise(rows.targets()))
    return likelihood(fit(likelihood, starts(structure), use_prior=use_prior).theta)[0]


def main() -> None:
    """Time all methods and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="observations (%(default)s)")
    parser.add_argument("--peers", nargs="*", choices=["ray", "botorch"], default=["ray", "botorch"])
    options = parser.parse_args()
    times = Table("who", "N", "median", "slowest", "decisions", f"times {ALL_ROWS}", title="One decision")
    fits = Table("N", "ours, no prior", "ours, as the methods fit", "BoTorch's", title="Log marginal likelihood, nats")
    if "ray" in options.peers:
        time_ray(50, seed=999)  # The first call includes imports and thread pools.
    if "botorch" in options.peers:
        time_botorch(50, seed=999)
    for n in options.sizes:
        observations = play(n)
        timed = {name: time_decisions(method, observations, ROUNDS) for name, method in OURS.items()}
        if n <= EXACT:
            timed[ALL_ROWS] = time_decisions(PB2Mix(window=None), observations, ROUNDS)
            timed["one Cholesky and inverse"] = time_lapack(n)
            seeds = range(3 if n < 500 else 1)
            history = History(SPACE, observations, size=MEMBERS)
            reached = [likelihood_reached(history, use_prior) for use_prior in (False, True)]
            if "ray" in options.peers:
                timed[RAY] = [time_ray(n, seed) for seed in seeds]
            if "botorch" in options.peers:
                results = [time_botorch(n, seed) for seed in seeds]
                timed[BOTORCH] = [seconds for seconds, _ in results]
                reached.append(results[0][1])
            fits.add_row(f"{n:,}", *(f"{value:,.2f}" for value in reached))
        for name, seconds in timed.items():
            middle, slowest = (f"{1e3 * value:,.2f} ms" for value in (median(seconds), max(seconds)))
            factor = f"{median(seconds) / median(timed[ALL_ROWS]):,.2f}" if ALL_ROWS in timed else ""
            times.add_row(name, f"{n:,}", middle, slowest, str(len(seconds)), factor)
    console = Console(width=120)
    console.print(times)
    console.print(fits)


if __name__ == "__main__":
    main()
