"""Write a model's parameter archive from its weights."""
