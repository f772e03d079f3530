"""A manifest is read into a typed, resolved graph.

It imports `ingot.engine` and `ingot.weights`; it starts no process.
"""
