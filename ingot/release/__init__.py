"""Publish bundles as OCI images, bring them back, and say who vouches for them.

This package imports `ingot.bundles` and what is below it.
"""
