"""The engine runs actions and keeps what they make; it knows nothing of models.

It imports `ingot.errors` and nothing else of this package.
"""
