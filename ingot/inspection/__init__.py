"""Show a model at each level of its compilation.

This package imports `ingot.report` and what is below it.
"""
