"""Builds for people to look at: the graph of actions, the page of a nightly build."""
