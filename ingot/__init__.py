"""A build graph of model artifacts: manifest in, checked and reproducible bundles
out."""
