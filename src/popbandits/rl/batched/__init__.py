"""Whole populations trained by one program: every member has its own weights, environments and hyperparameters."""
