"""Read weights from a checkpoint, convert them, and write them as one archive.

This package imports `ingot.errors` and `ingot.engine`.
"""
