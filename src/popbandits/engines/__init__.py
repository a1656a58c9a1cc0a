"""Where intervals are trained: in this process, in threads, processes, one batch, or a Ray cluster."""
