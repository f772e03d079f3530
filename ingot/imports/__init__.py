"""A checkpoint of a known architecture in, its manifest out."""
