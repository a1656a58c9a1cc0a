"""Experiments with known answers. Nothing is imported here, so that the command line answers at once."""
