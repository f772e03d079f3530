"""Load a target's compiled modules and call them.

This package imports `ingot.model` and `ingot.engine`.
"""
