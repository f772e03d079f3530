"""The engine runs actions and stores their results; it knows nothing about models.

It imports `ingot.errors` and `ingot.codec`, and nothing else of this package.
"""
