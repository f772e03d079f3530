"""Draw builds and write pages about them.

This package imports `ingot.project` and what is below it.
"""
