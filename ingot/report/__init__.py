"""Builds are drawn and written as pages for people.

It imports `ingot.project` and what lies below it.
"""
