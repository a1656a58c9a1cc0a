"""Kills, faults and attacks that runs survive: `python -m popbandits_experiments.reliability` and its `.attacks`."""
