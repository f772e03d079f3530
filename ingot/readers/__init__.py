"""Readers: text with positions in, frozen values out, every name resolved."""
