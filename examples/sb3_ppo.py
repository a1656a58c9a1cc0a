"""Tune a PPO of Stable-Baselines3 while it trains, on this machine or on a Ray cluster.

    pip install 'popbandits[ray]' stable-baselines3
    python examples/sb3_ppo.py [--engine ray] [--rounds 10] [--steps 2048]

Stable-Baselines3 turns learning rate and clip range into schedules when a model is made, and a loaded model brings its
own along; so `train` sets them again, and `applied` reads back what the optimizer has.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
from ConfigSpace import Float
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

from popbandits import Outcome, tune

SPACE = {
    "lr": Float("lr", (1e-5, 1e-2), log=True),
    "clip": (0.1, 0.5),
    "epochs": (1, 10),
    "normalize": [True, False],  # the advantages of a minibatch
}
EPISODES = 10  # of an evaluation


class Agent:
    """PPO on CartPole."""

    def __init__(self, seed: int, steps: int):
        self.steps = steps
        world = gymnasium.make("CartPole-v1")
        self.model = PPO("MlpPolicy", world, n_steps=min(steps, 512), seed=seed % 2**31, device="cpu")
        self.evaluation = gymnasium.make("CartPole-v1")

    def train(self, config: dict[str, Any]) -> Outcome:
        """Train for some steps; the mean return of some episodes."""
        model = self.model
        model.lr_schedule = lambda _: config["lr"]
        model.clip_range = lambda _: config["clip"]
        model.n_epochs, model.normalize_advantage = config["epochs"], config["normalize"]
        model.learn(self.steps, reset_num_timesteps=False)
        score, _ = evaluate_policy(model, self.evaluation, n_eval_episodes=EPISODES, warn=False)
        return Outcome(float(score), steps=self.steps)

    def applied(self) -> dict[str, Any]:
        """What the model trained with."""
        model = self.model
        return {
            "lr": model.policy.optimizer.param_groups[0]["lr"],
            "clip": model.clip_range(1.0),
            "epochs": model.n_epochs,
            "normalize": model.normalize_advantage,
        }

    def save(self, directory: Path) -> None:
        """Weights and optimizer; schedules are no part of it, since `train` sets them."""
        self.model.save(directory / "model.zip", exclude=["lr_schedule", "clip_range"])

    def load(self, directory: Path) -> None:
        """Become what was saved."""
        self.model.set_parameters(str(directory / "model.zip"), device="cpu")


def main() -> None:
    """Tune it, and show the schedule that came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="processes", choices=["in-process", "threads", "processes", "ray"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=2048, help="of an interval, a multiple of 512")
    arguments = parser.parse_args()
    agent = partial(Agent, steps=arguments.steps)
    result = tune(agent, SPACE, population=4, rounds=arguments.rounds, engine=arguments.engine)
    print(f"best return {result.best.score:.1f}, in {result.checkpoint}; the schedule that led to it:")
    for config in result.schedule:
        print("  ", config)


if __name__ == "__main__":
    main()
