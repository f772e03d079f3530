"""Programs run inside the sandbox, each told what to do by one frozen specification.

A program imports rooms below this one, never a stage: its sources, and all that they
import, are inputs of the actions that run it.
"""
