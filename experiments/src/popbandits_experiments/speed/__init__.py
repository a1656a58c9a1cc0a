"""Cost of decisions, runs, reports and training, compared to peers: `python -m popbandits_experiments.speed.NAME`."""
