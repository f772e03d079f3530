"""Compute a model again in low precision, to find where its error originates.

This package imports `ingot.report` and what is below it.
"""
