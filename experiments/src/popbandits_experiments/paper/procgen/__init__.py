"""Procgen: PPO, DrAC and UCB-DrAC agents on sixteen games with generated levels."""
