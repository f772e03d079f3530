"""Compare a part of a model, as a target computes it, with its reference."""
