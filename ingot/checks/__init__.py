"""Compare what a target computes with oracles and golden outputs.

This package imports `ingot.runtime` and what is below it.
"""
