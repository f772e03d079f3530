"""The command line: the only package that imports doit.

It may import every other package.
"""
