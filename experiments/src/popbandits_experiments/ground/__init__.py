"""Methods compared on real training: `python -m popbandits_experiments.ground --help`."""
