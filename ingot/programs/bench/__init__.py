"""Time the entry points of a model on one target."""
