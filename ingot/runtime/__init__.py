"""A target's compiled modules are loaded and called.

It imports `ingot.model` and `ingot.engine`.
"""
