"""Compare the results of an entry point on a target with its reference."""
