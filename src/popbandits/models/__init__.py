"""Models of the history: the time-varying GP and the bandit."""
