"""A build graph of model artifacts: manifests in, reproducible bundles out."""
