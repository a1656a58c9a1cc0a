"""Tables and figures, made from a run's numbers alone."""
