"""Join a file from its parts."""
