"""A project is a checkout: its settings, models and targets, and their plans.

It imports `ingot.stages` and what lies below it.
"""
