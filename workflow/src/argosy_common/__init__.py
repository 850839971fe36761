"""Errors for users, files, sizes and durations: shared by all packages, from the standard library alone."""
