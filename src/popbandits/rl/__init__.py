"""Reinforcement learning agents. Nothing else in popbandits depends on them."""

from popbandits.errors import MissingExtraError

AGENTS = {("import", "popbandits.rl.demo:make_agent"), ("import", "popbandits.rl.ppo:PPO")}
"""Agents that any run's record may name: kind of recipe and import path."""

try:
    import envpool  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        f"popbandits.rl needs torch and EnvPool, and {error.name} is missing; pip install 'popbandits[rl]'"
    ) from error
