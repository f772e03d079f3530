"""Write the graph of a model as MLIR.

This package imports `ingot.model`.
"""
