"""A shared cache holds results where several machines find them.

It imports `ingot.engine`, but not `ingot.engine.remote`.
"""
