"""Oracles: what each component must compute, in NumPy and float64, from the papers."""
