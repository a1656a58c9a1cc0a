"""One decision of Ray Tune's PB2, by Ray's own code, on the continuous parameters; it supports no categories.

Ray 2.60 does this in `ray.tune.schedulers.pb2._explore`, which we call as its scheduler does:

- The model is scikit-learn's `GaussianProcessRegressor` with a time-varying squared exponential kernel over
  time, the score before, and the parameters. Scikit-learn is all it needs: it does not import GPy.
- The noise is not learned but fixed at 1e-10, and y is clipped at two standard deviations. So its likelihood
  is of another model on slightly other numbers, and often of fewer rows: do not compare it to ours.
- From 200 observations on, a model is fitted to the last 200, 210, 220, ... of them to choose how many to
  keep: 2 fits for 200 observations, 32 for 500, 82 for 1,000, the final one included.
"""

import warnings
from time import perf_counter
from unittest.mock import patch

import numpy as np
import pandas as pd
from ray.tune.schedulers import pb2
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor

from popbandits_experiments.peers import PeerResult
from popbandits_experiments.simulated.data import DIMENSIONS, Data

NAMES = [f"x{i}" for i in range(DIMENSIONS)]


def decide(data: Data, seed: int = 0) -> PeerResult:
    """Time one call of Ray's explore step for a trial that has just copied the best one."""
    fits: list[GaussianProcessRegressor] = []

    class Watched(GaussianProcessRegressor):
        """Remember the model, which Ray does not return; change nothing."""

        def fit(self, X, y):  # type: ignore[no-untyped-def]
            fits.append(self)
            return super().fit(X, y)

    frame = as_ray_logs_it(data)
    latest = data.round == data.round.max()
    best = np.flatnonzero(latest)[np.argmax(data.after[latest])]
    worst = np.flatnonzero(latest)[np.argmin(data.after[latest])]
    config = dict(zip(NAMES, data.x[best].tolist(), strict=True))

    np.random.seed(seed)  # noqa: NPY002 (Ray draws its starting points from the global generator)
    # The name in `pb2` is the final model's; those that choose how much to keep have theirs in `pb2_utils`.
    with patch.object(pb2, "GaussianProcessRegressor", Watched), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Without noise, its variance ends at the upper bound.
        start = perf_counter()
        pb2._explore(
            frame,
            bounds=dict.fromkeys(NAMES, (0.0, 1.0)),
            current=None,  # The first decision of its round, and the only one: a quarter of four is replaced.
            base=trial_name(data.member[best]),
            old=trial_name(data.member[worst]),
            config=config,
        )
        seconds = perf_counter() - start
    model = fits[-1]
    return PeerResult(
        seconds=seconds,
        log_likelihood=float(model.log_marginal_likelihood_value_),
        observations=len(model.X_train_),
    )


def trial_name(member: int) -> str:
    """Return the name of a trial; Ray reads nothing else of it here."""
    return f"trial_{member}"


def as_ray_logs_it(data: Data) -> pd.DataFrame:
    """Build the scheduler's table: a row with the score a configuration starts from, then one for each round.

    Ray takes differences between the rows of one trial and configuration, so n observations need one row more
    for each configuration. (It logs none for the very first ones; we add it, so that all n count.)
    """
    rows = []
    for i in range(len(data)):
        trial, x = trial_name(data.member[i]), data.x[i].tolist()
        earlier = np.flatnonzero(data.member[:i] == data.member[i])
        if not len(earlier) or not np.array_equal(data.x[earlier[-1]], data.x[i]):
            rows.append([trial, float(data.round[i]), *x, data.before[i]])
        rows.append([trial, float(data.round[i] + 1), *x, data.after[i]])
    return pd.DataFrame(rows, columns=["Trial", "Time", *NAMES, "Reward"])
