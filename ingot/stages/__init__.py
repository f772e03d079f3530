"""A stage plans actions; the programs that they run are in `ingot.programs`.

It imports all that lies below it, and no stage imports another one.
"""
