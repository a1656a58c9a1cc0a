"""Ray Tune's own PB2 example with our scheduler in place of its, and with a categorical hyperparameter added.

    python examples/ray_tune.py [--iterations 100]

The trainable is Tune's toy, whose best learning rate changes while it trains; it needs `pip install 'popbandits[ray]'`.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune

from popbandits import History
from popbandits.ray import PB2Fuse  # was: from ray.tune.schedulers.pb2 import PB2

INTERVAL = 5


def train(config: dict[str, Any]) -> None:
    """Climb to 200: the learning rate should rise up to 100 and fall from there; so should the augmentation change."""
    accuracy, rng = 0.0, np.random.default_rng()
    if checkpoint := tune.get_checkpoint():
        with checkpoint.as_directory() as folder:
            accuracy = json.loads(Path(folder, "state.json").read_text())["accuracy"]
    while True:
        best = np.clip(0.0001 * (accuracy if accuracy < 100 else 200 - accuracy), 0.001, 0.01)
        miss = max(config["lr"], best) / min(config["lr"], best)
        good = config["augmentation"] == ("crop" if accuracy < 100 else "cutout")
        accuracy += (1.0 if good else 0.25) * rng.random() / miss if miss < 3 else 0.0
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "state.json").write_text(json.dumps({"accuracy": accuracy}))
            # `applied` is checked: a trainable that goes on with old hyperparameters ends the experiment.
            report = {"mean_accuracy": accuracy, "applied": {"lr": config["lr"]}}
            tune.report(report, checkpoint=tune.Checkpoint.from_directory(folder))


def main() -> None:
    """Tune it, and show the schedule that came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=100)
    arguments = parser.parse_args()
    tuner = tune.Tuner(
        train,
        param_space={
            "lr": tune.uniform(0.0001, 0.02),
            "augmentation": tune.choice(["crop", "flip", "noise", "cutout"]),
        },
        tune_config=tune.TuneConfig(
            scheduler=PB2Fuse(time_attr="training_iteration", perturbation_interval=INTERVAL),  # was: PB2(...)
            metric="mean_accuracy",
            mode="max",
            num_samples=4,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(stop={"training_iteration": arguments.iterations}, verbose=0),
    )
    results = tuner.fit()
    history = History.load(results.experiment_path)
    print(f"best accuracy {history.best.score:.1f}; the schedule that led to it:")
    for number, config in enumerate(history.schedule()):
        print(f"  {number * INTERVAL:4d}  lr {config['lr']:.4f}  {config['augmentation']}")


if __name__ == "__main__":
    main()
