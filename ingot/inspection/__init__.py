"""Show a model at each level of its compilation.

This package imports `ingot.project` and what is below it.
"""
