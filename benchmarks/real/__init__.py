"""Methods compared on real training: `python -m benchmarks.real --help`."""
