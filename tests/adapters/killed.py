"""A run that a test kills: `python -m tests.adapters.killed ppo FOLDER` begins it or resumes it.

With KILL_AT_STEP=n in the environment, it kills itself in the n-th training step of its process, with SIGKILL.
"""

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from popbandits import History, resume, tune
from popbandits.errors import HistoryError

STEPS = 0


def sb3(algorithm: str, seed: int, **settings: Any) -> Any:
    import gymnasium
    import stable_baselines3

    from popbandits.adapters.stable_baselines3 import SB3Agent

    class Deadly(gymnasium.Wrapper[Any, Any, Any, Any]):
        """An environment in which this process can die."""

        def step(self, action: Any) -> Any:
            global STEPS
            STEPS += 1
            if str(STEPS) == os.environ.get("KILL_AT_STEP"):
                os.kill(os.getpid(), signal.SIGKILL)
            return super().step(action)

    kind = getattr(stable_baselines3, algorithm)
    settings |= {"seed": seed, "steps": 32, "episodes": 1, "device": "cpu"}
    return SB3Agent(kind, "MlpPolicy", lambda: Deadly(gymnasium.make("CartPole-v1")), **settings)


def ppo(seed: int) -> Any:
    return sb3("PPO", seed, n_steps=16, batch_size=8, n_epochs=2)


def dqn(seed: int) -> Any:
    return sb3("DQN", seed, buffer_size=80, learning_starts=8, batch_size=8, target_update_interval=4)


def lightning(seed: int) -> Any:
    from tests.adapters.lightning_agents import make_agent

    return make_agent(seed)


def trl(seed: int) -> Any:
    from tests.adapters.language_models import grpo

    return grpo(seed)


def robot(name: str, seed: int) -> Any:
    from tests.adapters import robots

    return getattr(robots, name)(seed)


AGENTS: dict[str, Any] = {
    "ppo": (ppo, {"learning_rate": (1e-4, 1e-2), "gamma": (0.8, 0.99), "optimizer": ["Adam", "RMSprop"]}),
    "dqn": (dqn, {"learning_rate": (1e-4, 1e-2), "exploration_final_eps": (0.0, 0.3)}),
    "rsl_rl": (partial(robot, "rsl_rl"), {"learning_rate": (1e-4, 1e-2), "gamma": (0.8, 0.99), "effort": (0.0, 1.0)}),
    "skrl": (partial(robot, "skrl"), {"learning_rate": (1e-4, 1e-2), "mini_batches": [1, 2], "effort": (0.0, 1.0)}),
    "rl_games": (partial(robot, "rl_games"), {"kl_threshold": (1e-3, 1e-1), "tau": (0.8, 0.99), "effort": (0.0, 1.0)}),
    "lightning": (lightning, {"lr": (1e-3, 1e-1), "dropout": (0.0, 0.5), "optimizer": ["Adam", "SGD"]}),
    "trl": (trl, {"learning_rate": (1e-3, 1e-1), "beta": (0.0, 1.0), "temperature": (0.5, 2.0)}),
}


def begin_or_resume(name: str, directory: Path) -> History:
    make_agent, space = AGENTS[name]
    try:
        return resume(directory, agent=make_agent, progress=False).history
    except HistoryError:  # There is no run yet.
        mode = "min" if name == "lightning" else "max"
        settings: dict[str, Any] = {"population": 3, "rounds": 4, "mode": mode, "progress": False}
        return tune(make_agent, space, directory=directory, **settings).history


if __name__ == "__main__":
    begin_or_resume(sys.argv[1], Path(sys.argv[2]))
