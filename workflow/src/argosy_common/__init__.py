"""Errors for users, files, sizes and durations: shared by all packages, from the standard library alone."""

import warnings

# Patterns of users are compiled as they stand: Python's advice on `[[a-z]` is for authors of programs.
warnings.filterwarnings("ignore", "Possible (nested )?set", FutureWarning)
