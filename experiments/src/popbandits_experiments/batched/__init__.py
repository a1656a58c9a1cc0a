"""Populations trained as one program; every member has its own weights, environments and hyperparameters."""
