"""Pack what is shipped of a model for one target."""
