"""Problems whose score is a formula: a smoke test of methods, `python -m popbandits_experiments.simulated.regret`."""
