"""Tune a PPO of Stable-Baselines3 while it trains, on this machine or on a Ray cluster.

    pip install 'popbandits[sb3,ray]'
    python examples/sb3_ppo.py [--engine ray] [--rounds 10] [--steps 2048]

The adapter owns the checkpoint, and puts hyperparameters into the model after a load: a loaded model brings its own
learning rate and clip range along. docs/adapters.md says which can be tuned.
"""

import argparse
from functools import partial

from stable_baselines3 import PPO

from popbandits import log, tune
from popbandits.adapters.stable_baselines3 import SB3Agent

SPACE = {
    "learning_rate": log(1e-5, 1e-2),
    "clip_range": (0.1, 0.5),
    "n_epochs": (1, 10),
    "normalize_advantage": [True, False],
}
EPISODES = 10  # of an evaluation


def make_agent(seed: int, steps: int) -> SB3Agent:
    """Build a PPO that plays CartPole."""
    settings = {"n_steps": min(steps, 512), "device": "cpu"}
    return SB3Agent(PPO, "MlpPolicy", "CartPole-v1", seed=seed, steps=steps, episodes=EPISODES, **settings)


def main() -> None:
    """Tune it, and show the schedule that came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="processes", choices=["in-process", "threads", "processes", "ray"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=2048, help="of an interval, a multiple of 512")
    arguments = parser.parse_args()
    agent = partial(make_agent, steps=arguments.steps)
    result = tune(agent, SPACE, population=4, rounds=arguments.rounds, engine=arguments.engine)
    print(f"best return {result.best.score:.1f}, in {result.checkpoint}; the schedule that led to it:")
    for config in result.schedule:
        print("  ", config)


if __name__ == "__main__":
    main()
