"""Build model artifacts as a graph: from manifests to reproducible bundles."""
