"""Compute golden outputs of a checkpoint with transformers."""
