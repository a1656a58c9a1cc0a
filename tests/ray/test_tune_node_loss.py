"""A node is lost, whatever its trials were doing: no observation is lost or made twice, and nothing hangs."""

from pathlib import Path
from typing import Any

import pytest
from ray import tune
from ray.tune import Callback

from popbandits.ray import PBT
from tests.ray.checking import check
from tests.ray.doomed import INTERVAL, Doomed, doomed
from tests.ray.losing import loses, this_node
from tests.ray.trainables import PARAM_SPACE

SIZE, ROUNDS = 4, 3


class Watch(Callback):
    """Says when a trial waits, that has trained on another node than the head."""

    def __init__(self, folder: Path, head: str):
        self.reached, self.head = folder / "reached", head

    def on_step_end(self, iteration: int, trials: Any, **_: Any) -> None:
        for trial in trials:
            if trial.status in ("PAUSED", "PENDING") and (trial.last_result or {}).get("node", self.head) != self.head:
                self.reached.touch()


@pytest.mark.parametrize(
    ("trainable", "moment", "synch"),
    [  # Both kinds of trainable and of scheduler, and a trial that has no node; the whole matrix is slow.
        (doomed, "training", False),
        (Doomed, "waiting", True),
        pytest.param(Doomed, "saving", True, marks=pytest.mark.slow),
        pytest.param(Doomed, "waiting", False, marks=pytest.mark.slow),
        pytest.param(Doomed, "starting", False, marks=pytest.mark.slow),
        pytest.param(Doomed, "being used again", False, marks=pytest.mark.slow),
        pytest.param(Doomed, "loading", False, marks=pytest.mark.slow),
        pytest.param(Doomed, "training", True, marks=pytest.mark.slow),
        pytest.param(Doomed, "starting", True, marks=pytest.mark.slow),
        pytest.param(Doomed, "being used again", True, marks=pytest.mark.slow),
        pytest.param(Doomed, "training", False, marks=pytest.mark.slow),
        pytest.param(doomed, "training", True, marks=pytest.mark.slow),
    ],
)
def test_tune_goes_on_without_the_node_of_a_trial(
    trainable: Any, moment: str, synch: bool, cluster: Any, tmp_path: Path
) -> None:
    # There are three processors: somebody waits for one all the time, and actors are used again.
    with loses(cluster, tmp_path):
        results = tune.Tuner(
            trainable,
            param_space={**PARAM_SPACE, "moment": moment, "head": this_node(), "folder": str(tmp_path)},
            tune_config=tune.TuneConfig(
                scheduler=PBT("training_iteration", perturbation_interval=INTERVAL, quantile_fraction=0.5, synch=synch),
                num_samples=SIZE,
                metric="score",
                mode="max",
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name="experiment",
                storage_path=str(tmp_path),
                stop={"training_iteration": ROUNDS * INTERVAL},
                failure_config=tune.FailureConfig(max_failures=3),
                callbacks=[Watch(tmp_path, this_node())] if moment == "waiting" else [],
                verbose=0,
            ),
        ).fit()
    assert not results.errors
    assert min(result.metrics["training_iteration"] for result in results) >= ROUNDS * INTERVAL
    history = check(tmp_path / "experiment", "PBT", synch, SIZE)
    assert not any(o.failed for o in history)
    for member in range(SIZE):
        rounds = [o.round for o in history if o.member == member]
        assert rounds == list(range(ROUNDS if synch else len(rounds)))
