"""Remote workers run actions on other machines.

It imports `ingot.engine`, its caches and `ingot.codec`.
"""
