"""Reinforcement learning agents. Nothing else in popbandits depends on them."""

from popbandits.basics.extras import library

AGENTS = {("import", "popbandits.rl.demo:make_agent"), ("import", "popbandits.rl.ppo:PPO")}
"""Agents that any run's record may name: kind of recipe and import path."""

for _name in ("torch", "envpool"):
    library(_name, "rl", "popbandits.rl")
