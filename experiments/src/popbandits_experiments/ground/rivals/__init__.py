"""Rivals of populations: schedulers that start, pause and resume trials on the slots of a population."""
