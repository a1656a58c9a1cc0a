"""Whole populations in one program: agents, environments and hyperparameters as tensors."""
