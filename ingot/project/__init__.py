"""Read a project: the settings, models and targets of a checkout, and their plans.

This package imports `ingot.stages` and what is below it.
"""
