"""Stages: `plan_*` makes an Action of values; `main` is the program that it runs."""
