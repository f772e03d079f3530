"""Programs run inside the sandbox; one frozen specification tells each what to do.

This package imports `ingot.bundles` and what is below it, never a stage: the sources of
a program, and all that they import, are inputs of the actions that run it.
"""
