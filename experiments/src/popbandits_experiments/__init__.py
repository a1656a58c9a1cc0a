"""Experiments that popbandits is judged by; experiments/README.md lists them with their commands."""

from pathlib import Path

__version__ = "0.2.0.dev0"

RESULTS = Path(__file__).parents[2] / "results"
"""Stored results of a checkout."""
