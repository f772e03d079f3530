"""Describe, read, run and verify bundles, which are what is shipped.

This package imports `ingot.checks` and what is below it.
"""
