"""Engines that train intervals: in this process, in threads, processes, one batch, or a Ray cluster."""
