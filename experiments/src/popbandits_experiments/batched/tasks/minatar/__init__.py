"""MinAtar's games on the device."""
