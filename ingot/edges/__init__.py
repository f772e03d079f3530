"""Edges: the only modules that start processes, touch the store or load IREE."""
