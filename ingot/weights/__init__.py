"""Weights on their way from a source to an archive: names matched, types converted."""
