"""Engines that train intervals: in this process, in threads, processes, one batch, SLURM jobs, or a Ray cluster."""
