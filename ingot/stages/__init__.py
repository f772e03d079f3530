"""A stage plans actions; the programs that they run are in `ingot.programs`.

This package imports `ingot.programs` and what is below it; no stage imports another.
"""
