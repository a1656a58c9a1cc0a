"""The commands of the paper's experiments."""
