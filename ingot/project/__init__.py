"""A project is a checkout: its settings, models and targets, and their plans.

This package imports `ingot.stages` and what is below it.
"""
