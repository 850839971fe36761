"""Converts a user's own batch script, read as data, into an experiment and a site."""
