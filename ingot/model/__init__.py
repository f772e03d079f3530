"""Read a manifest and resolve it into a typed graph.

This package imports `ingot.engine` and `ingot.weights`, and starts no process.
"""
