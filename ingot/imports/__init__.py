"""Read the files of a checkpoint and write a manifest for it.

This package imports `ingot.model` and `ingot.weights`.
"""
