"""A bundle is what is shipped: it is described, read, run and verified here.

It imports `ingot.checks` and what lies below it.
"""
