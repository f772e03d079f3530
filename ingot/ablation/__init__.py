"""A model is computed again in low precision, to find where its error comes from.

It imports `ingot.project` and what lies below it.
"""
