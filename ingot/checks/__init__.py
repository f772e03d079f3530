"""What a target computes is compared with oracles and golden outputs.

It imports `ingot.runtime` and what lies below it.
"""
