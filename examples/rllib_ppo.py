"""Tune RLlib's PPO while it trains, numbers and categories together, and see that every change took effect.

    pip install 'popbandits[ray]' 'ray[rllib]' torch
    python examples/rllib_ppo.py [--iterations 12] [--trials 4]

RLlib restores an algorithm's optimizer and its schedules with its checkpoint, and with them the old learning rate. So
the algorithm here sets what it was given after loading, reads back what its learner really uses, and reports it as
`applied`: the experiment ends with an error if that is not what was asked for.
"""

import argparse
from typing import Any

from ray import tune
from ray.rllib.algorithms.ppo import PPO, PPOConfig

from popbandits import History
from popbandits.ray import PB2Mix


class CheckedPPO(PPO):
    """PPO that says which hyperparameters its learner trains with."""

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Become what was saved, but for the hyperparameters."""
        given = self.config.copy(copy_frozen=False)
        super().load_checkpoint(checkpoint_dir)

        def give(learner: Any) -> None:
            learner.config = given
            for _, optimizer in learner._named_optimizers.items():
                for group in optimizer.param_groups:
                    group["lr"] = given.lr

        self.config = given
        self.learner_group.foreach_learner(give)

    def training_step(self) -> None:
        """Train, then look."""
        super().training_step()

        def look(learner: Any) -> dict[str, Any]:
            [optimizer, *_] = learner._named_optimizers.values()
            config = learner.config
            return {
                "lr": optimizer.param_groups[0]["lr"],
                "clip_param": config.clip_param,
                "num_epochs": config.num_epochs,
                "use_kl_loss": config.use_kl_loss,
            }

        [answer, *_] = self.learner_group.foreach_learner(look)
        self.seen = answer.get()

    def step(self) -> dict[str, Any]:
        """An iteration's result, with what was seen."""
        return {**super().step(), "applied": self.seen}


def main() -> None:
    """Tune it on CartPole."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--trials", type=int, default=4)
    arguments = parser.parse_args()
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    config = config.training(train_batch_size_per_learner=1000, minibatch_size=125)
    config = config.training(
        lr=tune.loguniform(1e-5, 1e-2),
        clip_param=tune.uniform(0.1, 0.5),
        num_epochs=tune.randint(1, 11),
        use_kl_loss=tune.choice([True, False]),
    )
    tuner = tune.Tuner(
        CheckedPPO,
        param_space=config,
        tune_config=tune.TuneConfig(
            scheduler=PB2Mix(time_attr="training_iteration", perturbation_interval=2, synch=True),
            metric="env_runners/episode_return_mean",
            mode="max",
            num_samples=arguments.trials,
        ),
        run_config=tune.RunConfig(stop={"training_iteration": arguments.iterations}, verbose=0),
    )
    history = History.load(tuner.fit().experiment_path)
    print(f"best return {history.best.score:.1f}; the schedule that led to it, every step of it checked:")
    for config in history.schedule():
        print("  ", config)


if __name__ == "__main__":
    main()
