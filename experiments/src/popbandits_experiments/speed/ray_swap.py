"""Ray Tune's PB2 and what becomes of its users' scripts when only the import is changed.

    python -m popbandits_experiments.speed.ray_swap [--seeds 30] [--iterations 50] [--problem NAME]

The script is that of Tune's PB2 example (8 trials, an interval of 5 iterations, asynchronous, `hyperparam_bounds` left
as they are) on four problems, from that example to what users make of it:

- Tune's own: the toy of its PB2 example, one learning rate in linear bounds, which `param_space` holds constant; and
  that with a tenth of its noise, which is several times an iteration's gain.
- A log scale and a choice: the best learning rate falls from 1e-2 to 1e-4 while it trains, `param_space` draws it from
  `tune.loguniform`, and of four augmentations another one is good in each half. The bounds name the learning rate only.
- The same with a learning rate that `tune.sample_from` draws, as in Tune's example with PPO.

A single seed says little: Ray's PB2 itself is ahead of itself in half of them. So its script is run a second time with
other seeds, as a control: "seeds ahead" of the others is to be read beside that row's, and so is "loses by", the mean
loss in the seeds that are lost. "Worst" and "quartiles" compare the seeds in order of their scores, worst with worst.

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
from tests.ray.simulation import Simulation, State, Step

SIZE, INTERVAL = 8, 5
NOISE = 2.0
LOWER, UPPER = 1e-5, 1e-1


def train_toy(state: State, config: Mapping[str, Any], rng: np.random.Generator, noise: float) -> float:
    """Train an iteration of Tune's toy, whose best learning rate rises and falls with the accuracy."""
    accuracy = state.get("accuracy", 0.0)
    slope = accuracy if accuracy < 100 else 200 - accuracy
    best = min(0.01, max(0.001, 0.0001 * slope))
    miss = max(config["lr"], best) / min(config["lr"], best)
    if miss < 3:
        accuracy += rng.random() / miss
    elif config["lr"] > best:
        accuracy -= (miss - 3) * rng.random()
    state["accuracy"] = max(0.0, accuracy + noise * rng.normal())
    return float(state["accuracy"])


def train(state: State, config: Mapping[str, Any], rng: np.random.Generator) -> float:
    """Train an iteration with a log scale: 0.3 at best, less by every factor that the learning rate is off."""
    level = state.get("level", 0.0)
    best = 1e-2 * 10 ** (-2 * min(1.0, level / 20))
    miss = abs(np.log10(config["lr"] / best))
    good = config["augmentation"] == ("crop" if level < 10 else "cutout")
    state["level"] = level + (1.0 if good else 0.25) * 0.3 * float(np.exp(-2 * miss**2)) + 0.02 * rng.normal()
    return float(state["level"])


def _log(spec: Any) -> float:
    return float(10 ** random.uniform(-5, -1))


Problem = tuple[Step, dict[str, Any], dict[str, Any]]
TOY: tuple[dict[str, Any], dict[str, Any]] = {"lr": 0.0001}, {"lr": [0.0001, 0.02]}
CHOICE = tune.choice(("crop", "flip", "noise", "cutout"))
PROBLEMS: dict[str, Problem] = {
    "Tune's own": (partial(train_toy, noise=NOISE), *TOY),
    "Tune's own, a tenth of the noise": (partial(train_toy, noise=NOISE / 10), *TOY),
    "a log scale and a choice": (
        train,
        {"lr": tune.loguniform(LOWER, UPPER), "augmentation": CHOICE},
        {"lr": [LOWER, UPPER]},
    ),
    "drawn by sample_from": (train, {"lr": tune.sample_from(_log), "augmentation": CHOICE}, {"lr": [LOWER, UPPER]}),
}
"""A step of training, `param_space` and `hyperparam_bounds`, by name."""

Make = Callable[..., Any]
RAYS: Make = partial(pb2.PB2, log_config=False)
CONTROL = 1000
"""What is added to the seeds of the control."""
IMPORTS: dict[str, tuple[Make, int]] = {
    "from ray.tune.schedulers.pb2 import PB2": (RAYS, 0),
    "the same, other seeds": (RAYS, CONTROL),
    "from popbandits.ray import PB2Fuse as PB2": (ours.PB2Fuse, 0),
    "from popbandits.ray import NearPBT as PB2": (ours.NearPBT, 0),
}
"""A scheduler and what is added to its seeds, by the line that imports it."""


def play(scheduler: Make, problem: str, iterations: int, seed: int) -> float:
    """Return the best score of a population at the end."""
    step, space, bounds = PROBLEMS[problem]
    np.random.seed(seed)  # noqa: NPY002 (Ray's PB2 and sample_from draw from the global generators)
    random.seed(seed)
    seeded = {} if scheduler is RAYS else {"seed": seed}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's fit does not converge, and says so; ours name what is tuned too.
        timing = {"time_attr": "training_iteration", "perturbation_interval": INTERVAL}
        made = scheduler(**timing, hyperparam_bounds=bounds, **seeded)
        simulation = Simulation(made, step, space, Path(folder), SIZE, iterations, seed=seed)
        simulation.run()
        return max(float(trial.last_result["score"]) for trial in simulation.trials)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--problem", choices=PROBLEMS, action="append", help="one of them; all if it is left out")
    arguments = parser.parse_args()
    logging.getLogger("ray.tune").setLevel(logging.WARNING)  # Ray's PB2 tells every step.
    print(f"{SIZE} trials, {arguments.iterations} iterations, interval {INTERVAL}, {arguments.seeds} seeds\n")
    print("| problem | import | best score | worst; quartiles | against Ray's PB2 | seeds ahead | loses by |")
    print("|---|---|---|---|---|---|---|")
    for problem in arguments.problem or PROBLEMS:
        base: list[float] = []
        for name, (scheduler, shift) in IMPORTS.items():
            seeds = range(shift, shift + arguments.seeds)
            scores = [play(scheduler, problem, arguments.iterations, seed) for seed in seeds]
            base = base or scores
            print(f"| {problem} | `{name}` | {describe(scores)} | {compare(scores, base)} |", flush=True)


def describe(scores: list[float]) -> str:
    """Return mean and standard error, the worst and the quartiles, as cells of a table."""
    ordered = " ".join(f"{each:.1f}" for each in np.quantile(scores, (0.25, 0.5, 0.75)))
    return f"{statistics.mean(scores):.1f} ± {stats.sem(scores):.1f} | {min(scores):.1f}; {ordered}"


def compare(scores: list[float], base: list[float]) -> str:
    """Return the mean difference, the seeds ahead and the mean loss in the others, as cells of a table."""
    if scores is base:
        return " | | "
    ahead = [score - other for score, other in zip(scores, base, strict=True)]
    lost = [-each for each in ahead if each < 0]
    mean = f"{statistics.mean(ahead):+.1f} ± {stats.sem(ahead):.1f}"
    return f"{mean} | {sum(each > 0 for each in ahead)} of {len(ahead)} | {statistics.mean(lost or [0.0]):.1f}"


if __name__ == "__main__":
    main()
