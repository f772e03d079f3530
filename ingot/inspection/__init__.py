"""What a model looks like at each level of its compilation, for people."""
