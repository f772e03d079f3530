"""Download a file that a manifest pins by its sha256."""
