"""The paper's experiments: the synthetic task and Procgen."""

AGENTS = {("make", "popbandits.paper.procgen.task:Task")}
"""Agents that any run's record may name: kind of recipe and import path."""
