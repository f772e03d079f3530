"""Judge the comparisons of all parts of a model on one target."""
