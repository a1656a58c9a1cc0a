"""The paper's experiments: the synthetic task and Procgen."""
