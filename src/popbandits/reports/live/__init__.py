"""The live page: lists the runs of a folder, and follows one while it trains."""
