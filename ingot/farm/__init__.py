"""Builds on several machines: actions as orders, workers that run them, a scheduler."""
