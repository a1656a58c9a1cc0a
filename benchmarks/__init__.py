"""Speed and quality of our decisions, compared to our peers: `make bench`, or `python -m benchmarks.NAME`."""
