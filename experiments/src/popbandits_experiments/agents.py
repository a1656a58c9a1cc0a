"""Agents that any run's record may name, and where they were; read through the entry point `popbandits.agents`."""

AGENTS = {("make", "popbandits_experiments.paper.procgen.task:Task")}
"""Kind of recipe and import path."""

MOVED = {
    "popbandits.rl.procgen.": "popbandits_experiments.paper.procgen.",
    "popbandits.paper.": "popbandits_experiments.paper.",
    "popbandits.rl.batched.": "popbandits_experiments.batched.",
}
"""Beginnings of import paths in older records, and what they are now."""
