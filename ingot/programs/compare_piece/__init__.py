"""Compare a piece of a model, as a target computes it, with its reference."""
