"""Compare the oracle of a model with golden outputs."""
