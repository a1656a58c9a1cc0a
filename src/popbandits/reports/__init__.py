"""Tables and figures, made only from a run's file."""
