"""Measure what rounded weights cost a decoder, on a text.

`alice.txt` is chapter I of Lewis Carroll, "Alice's Adventures in Wonderland" (1865),
which is in the public domain; the text is that of Project Gutenberg's edition 2.9.
"""
