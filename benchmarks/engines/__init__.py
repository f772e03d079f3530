"""Hold the engines that benchmarks/generate.py compares, one module for each."""
