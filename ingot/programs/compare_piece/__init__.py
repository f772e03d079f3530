"""Compare the results of a piece of a model on a target with the oracle's."""
