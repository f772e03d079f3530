"""Contain the programs that actions run in the sandbox.

Each program reads one frozen specification. This package imports `ingot.bundles` and
what is below it, never a stage: the sources of a program, and everything that they
import, are inputs of the actions that run it.
"""
