"""The factory of run folders is shared with the tests of `results`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "results"))
