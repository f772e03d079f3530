"""Compare an entry point of a model, as a target computes it, with its reference."""
