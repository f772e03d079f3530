"""Caches that several machines share, behind one small interface."""
