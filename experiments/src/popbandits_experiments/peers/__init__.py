"""Decisions of other libraries, by their own code (extra `bench`): Ray Tune's PB2, and our model in BoTorch."""
