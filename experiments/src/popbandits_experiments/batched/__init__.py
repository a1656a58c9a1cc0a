"""Populations trained as one program; every member has its own weights, environments and hyperparameters."""

from typing import Literal, get_args

Sharing = Literal["all", "leader"]
"""Who also learns from the others' rollouts: all members, or the first member of each population."""
SHARING: tuple[Sharing, ...] = get_args(Sharing)
