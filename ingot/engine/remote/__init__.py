"""CacheBackend workers run actions on other machines.

It imports `ingot.engine` and its caches.
"""
