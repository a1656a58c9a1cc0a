"""What the past says about the future: the time-varying GP and the bandit."""
