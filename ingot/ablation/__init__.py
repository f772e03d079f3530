"""Where a low-precision model's error comes from: the model computed again, rounded."""
