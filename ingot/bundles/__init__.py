"""What a bundle says of itself: made by the bundle stage, read by verify."""
