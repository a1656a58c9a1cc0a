"""The views of a run, which show it while it trains."""
