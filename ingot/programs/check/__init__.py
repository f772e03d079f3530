"""Report the comparisons of all pieces of a model on one target."""
