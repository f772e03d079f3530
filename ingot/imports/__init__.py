"""A checkpoint's files are read and a manifest is written for them.

It imports `ingot.model` and `ingot.weights`.
"""
