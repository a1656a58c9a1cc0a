"""How fast and how well we decide, beside our peers: `make bench`, or `python -m benchmarks.NAME`."""
