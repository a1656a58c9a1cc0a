"""Procgen: PPO, DrAC and UCB-DrAC on sixteen games with generated levels, as agents of the contract."""
