"""The live page: the runs of a folder, and one of them followed while it trains."""
