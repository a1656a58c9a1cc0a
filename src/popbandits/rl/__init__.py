"""Reinforcement learning: agents that keep the contract. Nothing else in popbandits depends on them."""

from popbandits.errors import MissingExtraError

try:
    import envpool  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        f"popbandits.rl needs torch and EnvPool, and {error.name} is missing; pip install 'popbandits[rl]'"
    ) from error
