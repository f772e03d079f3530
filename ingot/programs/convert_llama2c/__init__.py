"""Convert a checkpoint of llama2.c, or its vocabulary."""
