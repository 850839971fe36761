"""The real udocker, for tests of files that it reads and writes."""

import os
import sys

UDOCKER = [
    sys.executable,
    "-m",
    "udocker.maincmd",
    *(["--allow-root"] if os.geteuid() == 0 else []),
]
"""Command line of this environment's udocker, also as root."""
