"""Errors for users, files, sizes and durations, shared by all packages. Standard library only."""

import warnings

# Users' patterns are compiled unchanged; Python's warning about `[[a-z]` would only confuse them.
warnings.filterwarnings("ignore", "Possible (nested )?set", FutureWarning)
