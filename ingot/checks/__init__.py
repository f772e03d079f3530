"""The levels of a check: cases in, rows of a report out."""
