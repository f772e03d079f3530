"""The graph is written as MLIR.

It imports `ingot.model`.
"""
