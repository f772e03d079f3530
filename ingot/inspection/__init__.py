"""A model is shown as it is at each level of its compilation.

It imports `ingot.project` and what lies below it.
"""
