"""Weights are read from a checkpoint, converted, and written as one archive.

It imports `ingot.errors` and `ingot.engine`.
"""
