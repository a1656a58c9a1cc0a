"""Our schedulers compared to Ray Tune's PB2: score of the best trial, and cost of scheduling.

    python -m popbandits_experiments.speed.ray_tune [--seeds 20] [--iterations 100]

Three problems, 8 trials, an interval of 5 iterations, asynchronous, which is Tune's default:

- Tune's own: the toy of its PB2 example (`ray.tune.examples.pbt_function`), whose best learning rate rises and falls
  with the accuracy, with its noise.
- The same with a categorical: one of four augmentations is good in each half of the run, and the others slow it down.
  Tune's PB2 supports no categories, so a trial keeps its first label or copies another trial's.
- The same with a tenth of the noise, which in Tune's own problem is several times an iteration's gain.

Trials, generators and schedulers are Tune's own; the actors are replaced by a function call
(`tests/ray/simulation.py`).
"""

import argparse
import logging
import random
import statistics
import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune
from ray.tune.schedulers import pb2
from scipy import stats

import popbandits.ray as ours
from tests.ray.simulation import Simulation, State

SIZE, INTERVAL = 8, 5
BOUNDS: dict[str, Any] = {"lr": [0.0001, 0.02]}
LABELS = ("crop", "flip", "noise", "cutout")
LR = tune.uniform(*BOUNDS["lr"])
MIXED = {"lr": LR, "augmentation": tune.choice(LABELS)}
NOISE = 2.0
PROBLEMS: dict[str, tuple[dict[str, Any], float]] = {
    "Tune's own, one learning rate": ({"lr": LR}, NOISE),
    "with a categorical": (MIXED, NOISE),
    "with a categorical, a tenth of the noise": (MIXED, NOISE / 10),
}


def train(state: State, config: Mapping[str, Any], rng: np.random.Generator, noise: float) -> float:
    """Train one iteration of the toy and return its score."""
    accuracy = state.get("accuracy", 0.0)
    slope = accuracy if accuracy < 100 else 200 - accuracy
    best = min(0.01, max(0.001, 0.0001 * slope))
    miss = max(config["lr"], best) / min(config["lr"], best)
    if miss < 3:
        good = config.get("augmentation") in (None, "crop" if accuracy < 100 else "cutout")
        accuracy += (1.0 if good else 0.25) * rng.random() / miss
    elif config["lr"] > best:
        accuracy -= (miss - 3) * rng.random()
    state["accuracy"] = max(0.0, accuracy + noise * rng.normal())
    return float(state["accuracy"])


def settings() -> dict[str, Any]:
    return {"time_attr": "training_iteration", "perturbation_interval": INTERVAL}


def rays_pb2(seed: int) -> Any:
    np.random.seed(seed)  # noqa: NPY002 (it draws from the global generators)
    random.seed(seed)
    return pb2.PB2(**settings(), hyperparam_bounds=BOUNDS, log_config=False)


SCHEDULERS: dict[str, Callable[[int], Any]] = {
    "Ray Tune's PB2": rays_pb2,
    "PBT": lambda seed: ours.PBT(**settings(), seed=seed),
    "PB2-Mix": lambda seed: ours.PB2Mix(**settings(), seed=seed),
    "PB2-Fuse": lambda seed: ours.PB2Fuse(**settings(), seed=seed),
}


def play(name: str, problem: str, iterations: int, seed: int) -> tuple[float, float]:
    """Return the best score of a population at the end, and the seconds spent in its scheduler."""
    space, noise = PROBLEMS[problem]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's fit does not converge, and says so.
        step = partial(train, noise=noise)
        simulation = Simulation(SCHEDULERS[name](seed), step, space, Path(folder), SIZE, iterations, seed=seed)
        simulation.run()
        return max(trial.last_result["score"] for trial in simulation.trials), simulation.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=100)
    arguments = parser.parse_args()
    print("| problem | scheduler | best score | against Ray's PB2, paired | scheduling, processor time |")
    print("|---|---|---|---|---|")
    logging.getLogger("ray.tune").setLevel(logging.WARNING)  # Ray's PB2 logs every step.
    for problem in PROBLEMS:
        base: list[float] = []
        for name in SCHEDULERS:
            played = [play(name, problem, arguments.iterations, seed) for seed in range(arguments.seeds)]
            scores, seconds = [score for score, _ in played], statistics.mean(spent for _, spent in played)
            base = base or scores
            ahead = [score - other for score, other in zip(scores, base, strict=True)]
            beside = "" if scores is base else f"{statistics.mean(ahead):+.1f} ± {stats.sem(ahead):.1f}"
            mean = f"{statistics.mean(scores):.1f} ± {stats.sem(scores):.1f}"
            print(f"| {problem} | {name} | {mean} | {beside} | {seconds:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
