"""Stages: `plan` makes an Action of values; `main` is what an in-process action
runs."""
